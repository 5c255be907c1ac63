#include "backend/cpu/channel_runs.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/reorder.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace hp {
namespace {

// The inner loops, in functions of their own for the compiler's sake (activation.cc). `block` factors lie side by side;
// with one the loop is along the pixels.

/// y = f(x, factor) + bias; `bias` null: 0.
template <typename Function>
void BroadcastRun(const Function function, const float* x, const float* factor, const float* bias, int64_t pixels,
                  int64_t block, float* y) {
  if (block == 1) {
    const float by = *factor, add = bias == nullptr ? 0 : *bias;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) y[p] = function.Value(x[p], by) + add;
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    const int64_t at = p * block;
    if (bias == nullptr) {
#pragma omp simd
      for (int64_t c = 0; c < block; ++c) y[at + c] = function.Value(x[at + c], factor[c]);
    } else {
#pragma omp simd
      for (int64_t c = 0; c < block; ++c) y[at + c] = function.Value(x[at + c], factor[c]) + bias[c];
    }
  }
}

/// dx, from x where the function bends.
template <typename Function>
void BroadcastGradientRun(const Function function, const float* x, const float* factor, const float* dy, int64_t pixels,
                          int64_t block, float* dx) {
  if (block == 1) {
    const float by = *factor;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) dx[p] = function.InputGradient(x[p], by, dy[p]);
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    const int64_t at = p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) dx[at + c] = function.InputGradient(x[at + c], factor[c], dy[at + c]);
  }
}

/// The runs over which the factors are what channels are elsewhere: in x's layout if they are those of its channels.
ChannelRuns RunsOf(const BroadcastDesc& desc, const TensorDesc& in) {
  if (desc.axis_begin == 1 && desc.axis_end == 2) return ChannelRuns(in);
  const int64_t factors = desc.axis_begin == desc.axis_end ? 1 : in.shape.count(desc.axis_begin, desc.axis_end);
  const int64_t rows = desc.axis_begin == 0 ? 1 : in.shape.count(0, desc.axis_begin);
  const int64_t pixels = desc.axis_end == in.shape.rank() ? 1 : in.shape.count(desc.axis_end);
  return pixels == 1 ? ChannelRuns(rows, 1, 1, factors) : ChannelRuns(rows, factors, pixels, 1);
}

/// With two inputs the second one's layout may be another than the first one's; both are taken dense.
template <typename Function>
class BroadcastOp final : public Op {
 public:
  BroadcastOp(const Function& function, const BroadcastDesc& desc, const Backend::Descs& in)
      : function_(function),
        desc_(desc),
        in_(in),
        learned_(in.size() == 1),
        any_layout_((desc.axis_begin == 1 && desc.axis_end == 2) || (learned_ && desc.axis_begin == desc.axis_end)),
        runs_(RunsOf(desc, in[0])) {
    outputs_ = {in[0]};
    if (!any_layout_) outputs_[0].channel_block = 1;
    // x, or dx, dense; the factors dense; the sums of all runs.
    scratch_bytes_ = (Foreign(0) ? in[0].bytes() : 0) + (learned_ ? 0 : in[1].bytes()) +
                     2 * (runs_.rows * runs_.channels()) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    const float *const x = DenseInput(args), *const factors = Factors(args);
    const float* const bias = desc_.bias ? args.params[1].data : nullptr;
    float* const y = args.out[0].floats();
    const ChannelRuns& runs = runs_;
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      BroadcastRun(function_, x + at, factors + c, bias == nullptr ? nullptr : bias + c, runs.pixels, runs.block,
                   y + at);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (!learned_ && args.d_in[1].data != nullptr) FactorsGradient(args);
    if (args.d_in[0].data == nullptr) return;
    const float *const dy = args.d_out[0].floats(), *const factors = Factors(args);
    const float* const x = Function::kBends ? DenseInput(args) : dy;
    float* const dx = Foreign(0) ? Scratch(args) : args.d_in[0].floats();
    const ChannelRuns& runs = runs_;
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      BroadcastGradientRun(function_, x + at, factors + c, dy + at, runs.pixels, runs.block, dx + at);
    });
    if (Foreign(0)) CopyLayout(outputs_[0], dx, in_[0], args.d_in[0].floats());
  }

  void BackwardParams(const OpArgs& args) override {
    if (!learned_) return;
    SumRuns(args, args.accumulate, args.d_params[0], desc_.bias ? args.d_params[1] : nullptr);
  }
  bool backward_reads_input() const override { return Function::kBends || Function::kWeighs; }
  bool backward_reads_output() const override { return false; }

 private:
  bool Foreign(int input) const { return !any_layout_ && !SameOrder(in_[input], {in_[input].shape, 1}); }
  static float* Scratch(const OpArgs& args) { return reinterpret_cast<float*>(args.scratch); }
  float* BehindInput(const OpArgs& args) const { return Scratch(args) + (Foreign(0) ? in_[0].count() : 0); }

  const float* DenseInput(const OpArgs& args) const {
    if (!Foreign(0)) return args.in[0].floats();
    CopyLayout(in_[0], args.in[0].floats(), outputs_[0], Scratch(args));
    return Scratch(args);
  }
  const float* Factors(const OpArgs& args) const {
    if (learned_) return args.params[0].data;
    if (!Foreign(1)) return args.in[1].floats();
    CopyLayout(in_[1], args.in[1].floats(), {in_[1].shape, 1}, BehindInput(args));
    return BehindInput(args);
  }

  void FactorsGradient(const OpArgs& args) const {
    float* const dense = Foreign(1) ? BehindInput(args) : args.d_in[1].floats();
    SumRuns(args, false, dense, nullptr);
    if (Foreign(1)) CopyLayout({in_[1].shape, 1}, dense, in_[1], args.d_in[1].floats());
  }

  /// The gradients of factors and bias, added over the rows in order. @param d_bias null: not wanted.
  void SumRuns(const OpArgs& args, bool add, float* d_factors, float* d_bias) const {
    const float *const dy = args.d_out[0].floats(), *const x = Function::kWeighs ? DenseInput(args) : dy;
    const ChannelRuns& runs = runs_;
    const int64_t channels = runs.channels();
    float* const products = BehindInput(args) + (learned_ ? 0 : in_[1].count());
    float* const sums = d_bias == nullptr ? nullptr : products + runs.rows * channels;
    runs.ForEach([&](int64_t row, int64_t c, int64_t at) {
      const int64_t first = row * channels + c;
      SumGradients(x + at, dy + at, runs.pixels, runs.block, products + first, sums == nullptr ? nullptr : sums + first,
                   function_);
    });
    const auto add_rows = [&](const float* of_rows, float* to) {
      ForItems(channels, runs.rows * channels, [&](int64_t c) {
        double sum = add ? to[c] : 0;
        for (int64_t row = 0; row < runs.rows; ++row) sum += of_rows[row * channels + c];
        to[c] = static_cast<float>(sum);
      });
    };
    add_rows(products, d_factors);
    if (d_bias != nullptr) add_rows(sums, d_bias);
  }

  const Function function_;
  const BroadcastDesc desc_;
  const Backend::Descs in_;
  const bool learned_, any_layout_;
  const ChannelRuns runs_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Broadcast(const BroadcastDesc& desc, const Descs& in) {
  return std::visit(
      [&](const auto& function) {
        return Backend::OpPtr(std::make_unique<BroadcastOp<std::decay_t<decltype(function)>>>(function, desc, in));
      },
      desc.function);
}

}  // namespace hp

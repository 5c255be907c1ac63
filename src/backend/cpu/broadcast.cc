#include "backend/cpu/channel_runs.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/reorder.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace hp {
namespace {

// The inner loops, in functions of their own for the compiler's sake (activation.cc). `block` factors lie side by side;
// with one the loop is along the pixels.

/// y = f(x, factor) + bias; `bias` null: 0.
template <typename Function, typename T>
void BroadcastRun(const Function function, const T* x, const float* factor, const float* bias, int64_t pixels,
                  int64_t block, T* y) {
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
template <typename Function, typename T>
void BroadcastGradientRun(const Function function, const T* x, const float* factor, const T* dy, int64_t pixels,
                          int64_t block, T* dx) {
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

/// Whether it works in any layout of x, or dense.
bool TakesAnyLayout(const BroadcastDesc& desc, const Backend::Descs& in) {
  const bool of_channels = desc.axis_begin == 1 && desc.axis_end == 2, of_none = desc.axis_begin == desc.axis_end;
  return of_channels || (in.size() == 1 && of_none);
}

/// With two inputs the second one's layout may be another than the first one's; both are taken dense.
/// @tparam T float; or BFloat16 for one input in any layout.
template <typename Function, typename T>
class BroadcastOp final : public Op {
 public:
  BroadcastOp(const Function& function, const BroadcastDesc& desc, const Backend::Descs& in)
      : function_(function),
        desc_(desc),
        in_(in),
        learned_(in.size() == 1),
        any_layout_(TakesAnyLayout(desc, in)),
        runs_(RunsOf(desc, in[0])) {
    outputs_ = {in[0]};
    if (!any_layout_) outputs_[0].channel_block = 1;
    // x, or dx, dense; the factors dense; the sums of all runs.
    scratch_bytes_ = (Foreign(0) ? in[0].bytes() : 0) + (learned_ ? 0 : in[1].bytes()) +
                     2 * (runs_.rows * runs_.channels()) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    const T* const x = DenseInput(args);
    const float* const factors = Factors(args);
    const float* const bias = desc_.bias ? args.params[1].data : nullptr;
    T* const y = DataOf<T>(args.out[0]);
    const ChannelRuns& runs = runs_;
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      BroadcastRun(function_, x + at, factors + c, bias == nullptr ? nullptr : bias + c, runs.pixels, runs.block,
                   y + at);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (!learned_ && args.d_in[1].data != nullptr) FactorsGradient(args);
    if (args.d_in[0].data == nullptr) return;
    const T* const dy = DataOf<const T>(args.d_out[0]);
    const float* const factors = Factors(args);
    const T* const x = Function::kBends ? DenseInput(args) : dy;
    T* const dx = Foreign(0) ? reinterpret_cast<T*>(args.scratch) : DataOf<T>(args.d_in[0]);
    const ChannelRuns& runs = runs_;
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      BroadcastGradientRun(function_, x + at, factors + c, dy + at, runs.pixels, runs.block, dx + at);
    });
    if (Foreign(0)) CopyLayout(outputs_[0], dx, in_[0], args.d_in[0].data);
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

  const T* DenseInput(const OpArgs& args) const {
    if (!Foreign(0)) return DataOf<const T>(args.in[0]);
    CopyLayout(in_[0], args.in[0].data, outputs_[0], args.scratch);
    return reinterpret_cast<const T*>(args.scratch);
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
    const T *const dy = DataOf<const T>(args.d_out[0]), *const x = Function::kWeighs ? DenseInput(args) : dy;
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
  const auto make = [&]<typename T>(ElementTag<T>, const Descs& descs) -> StatusOr<OpPtr> {
    return std::visit(
        [&](const auto& function) {
          using Function = std::decay_t<decltype(function)>;
          return OpPtr(std::make_unique<BroadcastOp<Function, T>>(function, desc, descs));
        },
        desc.function);
  };
  const bool takes_bfloat16 = in.size() == 1 && TakesAnyLayout(desc, in);
  if (takes_bfloat16 && in[0].element == ElementType::kBFloat16) return make(ElementTag<BFloat16>(), in);
  return OnFloat32(in, [&](const Descs& floats) { return make(ElementTag<float>(), floats); });
}

}  // namespace hp

#include "backend/cuda/ops.h"
#include "backend/cuda/pack.h"
#include "backend/layout.h"

#include <algorithm>

namespace hp::cuda {
namespace {

constexpr int kInputs = 32;  // a kernel's arguments hold all of them

struct Inputs {
  const float* x[kInputs] = {};
  int count = 0;
  bool packable() const {
    return std::all_of(x, x + count, [](const float* input) { return Packable({input}); });
  }
};

struct Sum {
  float coeff[kInputs] = {};
  HP_HOST_DEVICE float First(float x) const { return coeff[0] * x; }
  HP_HOST_DEVICE float Combine(int k, float y, float x) const { return y + coeff[k] * x; }
};

struct Product {
  HP_HOST_DEVICE float First(float x) const { return x; }
  HP_HOST_DEVICE float Combine(int, float y, float x) const { return y * x; }
};

struct Maximum {
  HP_HOST_DEVICE float First(float x) const { return x; }
  HP_HOST_DEVICE float Combine(int k, float y, float x) const { return Replaces(k, y, x) ? x : y; }
  /// Whether input k is the maximum after `best` of the inputs before it. Caffe's rule for equal values: the second
  /// input goes before the first, any later one behind. A NaN wins, so that it is seen.
  HP_HOST_DEVICE static bool Replaces(int k, float best, float x) {
    if (best != best || x != x) return x != x;
    return k == 1 ? x >= best : x > best;
  }
};

/// Reads each input once, writes y.
template <typename Operation>
struct Forward {
  Operation operation;
  Inputs in;
  float* y;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = LoadPack<W>(in.x[0] + i);
    for (int w = 0; w < W; ++w) value.of[w] = operation.First(value.of[w]);
    for (int k = 1; k < in.count; ++k) {
      const Pack<float, W> x = LoadPack<W>(in.x[k] + i);
      for (int w = 0; w < W; ++w) value.of[w] = operation.Combine(k, value.of[w], x.of[w]);
    }
    StorePack(y + i, value);
  }
};

struct Scale {
  float factor;
  const float* dy;
  float* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = LoadPack<W>(dy + i);
    for (int w = 0; w < W; ++w) value.of[w] *= factor;
    StorePack(dx + i, value);
  }
};

/// dy times all other inputs.
struct ProductGradient {
  Inputs in;
  int own;
  const float* dy;
  float* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = LoadPack<W>(dy + i);
    for (int k = 0; k < in.count; ++k) {
      if (k == own) continue;
      const Pack<float, W> x = LoadPack<W>(in.x[k] + i);
      for (int w = 0; w < W; ++w) value.of[w] *= x.of[w];
    }
    StorePack(dx + i, value);
  }
};

/// dy where the own input was the largest. That is found again rather than kept.
struct MaximumGradient {
  Inputs in;
  int own;
  const float* dy;
  float* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> best = LoadPack<W>(in.x[0] + i), value = LoadPack<W>(dy + i);
    bool owns[W];
    for (int w = 0; w < W; ++w) owns[w] = own == 0;
    for (int k = 1; k < in.count; ++k) {
      const Pack<float, W> x = LoadPack<W>(in.x[k] + i);
      for (int w = 0; w < W; ++w) {
        if (!Maximum::Replaces(k, best.of[w], x.of[w])) continue;
        best.of[w] = x.of[w];
        owns[w] = k == own;
      }
    }
    for (int w = 0; w < W; ++w) value.of[w] = owns[w] ? value.of[w] : 0;
    StorePack(dx + i, value);
  }
};

/// Product, weighted sum or maximum of inputs of one shape, in the first input's layout; inputs in other layouts go
/// through scratch.
class EltwiseOp final : public Op {
 public:
  EltwiseOp(const GpuContext& context, const EltwiseDesc& desc, const Backend::Descs& in)
      : context_(context), desc_(desc), in_(in), count_(in[0].count()) {
    outputs_ = {in[0]};
    if (desc_.coeff.empty()) desc_.coeff.assign(in.size(), 1.0f);
    // One place for each input in a foreign layout, and one for the gradient of such an input.
    const auto foreign = std::count_if(in.begin(), in.end(), [&](const TensorDesc& d) { return !SameOrder(d, in[0]); });
    if (foreign > 0) scratch_bytes_ = static_cast<size_t>(foreign + 1) * in[0].bytes();
  }

  void Forward(const OpArgs& args) override {
    const Inputs in = Read(args);
    float* y = args.out[0].data;
    switch (desc_.operation) {
      case EltwiseDesc::kSum: {
        Sum sum;
        std::copy(desc_.coeff.begin(), desc_.coeff.end(), sum.coeff);
        return Run(in.packable() && Packable({y}), cuda::Forward<Sum>{sum, in, y});
      }
      case EltwiseDesc::kProd:
        return Run(in.packable() && Packable({y}), cuda::Forward<Product>{{}, in, y});
      case EltwiseDesc::kMax:
        return Run(in.packable() && Packable({y}), cuda::Forward<Maximum>{{}, in, y});
    }
  }

  void BackwardInput(const OpArgs& args) override {
    const Inputs in = desc_.operation == EltwiseDesc::kSum ? Inputs() : Read(args);
    for (size_t k = 0; k < in_.size(); ++k) {
      float* dx = args.d_in[k].data;
      if (dx == nullptr) continue;
      const bool foreign = !SameOrder(in_[k], in_[0]);
      float* target = foreign ? reinterpret_cast<float*>(args.scratch) : dx;
      Gradient(static_cast<int>(k), in, args.d_out[0].data, target);
      if (foreign) CopyLayout(context_.stream(), in_[0], target, in_[k], dx);
    }
  }
  bool backward_reads_input() const override { return desc_.operation != EltwiseDesc::kSum; }
  bool backward_reads_output() const override { return false; }

 private:
  template <typename Functor>
  void Run(bool packable, const Functor& functor) const {
    ForEachPack(context_.stream(), count_, packable, functor);
  }

  void Gradient(int k, const Inputs& in, const float* dy, float* dx) const {
    const bool packable = in.packable() && Packable({dy, dx});
    switch (desc_.operation) {
      case EltwiseDesc::kSum:
        return Run(packable, Scale{desc_.coeff[k], dy, dx});
      case EltwiseDesc::kProd:
        return Run(packable, ProductGradient{in, k, dy, dx});
      case EltwiseDesc::kMax:
        return Run(packable, MaximumGradient{in, k, dy, dx});
    }
  }

  /// The inputs in the first one's layout.
  Inputs Read(const OpArgs& args) const {
    float* place = reinterpret_cast<float*>(args.scratch);
    Inputs in;
    in.count = static_cast<int>(in_.size());
    for (size_t k = 0; k < in_.size(); ++k) {
      in.x[k] = args.in[k].data;
      if (SameOrder(in_[k], in_[0])) continue;
      place += count_;  // the first place is for gradients
      CopyLayout(context_.stream(), in_[k], args.in[k].data, in_[0], place);
      in.x[k] = place;
    }
    return in;
  }

  const GpuContext context_;
  EltwiseDesc desc_;
  const Backend::Descs in_;
  const int64_t count_;
};

}  // namespace

StatusOr<Backend::OpPtr> MakeEltwise(const GpuContext& context, const EltwiseDesc& desc, const Backend::Descs& in) {
  if (in.size() > kInputs) {
    return FailedPrecondition("Eltwise of %zu bottoms; a GPU takes up to %d", in.size(), kInputs);
  }
  return Backend::OpPtr(std::make_unique<EltwiseOp>(context, desc, in));
}

}  // namespace hp::cuda

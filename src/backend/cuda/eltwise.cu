#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/layout.h"

#include <algorithm>

namespace hp::cuda {
namespace {

constexpr int kInputs = 32;  // a kernel's arguments hold all of them

template <typename T>
struct Inputs {
  const T* x[kInputs] = {};
  int count = 0;
  bool packable() const {
    return std::all_of(x, x + count, [](const T* input) { return Packable({input}); });
  }
};

struct WeightedSum {
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
template <typename T, typename Operation>
struct Forward {
  Operation operation;
  Inputs<T> in;
  T* y;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = ReadPack<W>(in.x[0] + i);
    for (int w = 0; w < W; ++w) value.of[w] = operation.First(value.of[w]);
    for (int k = 1; k < in.count; ++k) {
      const Pack<float, W> x = ReadPack<W>(in.x[k] + i);
      for (int w = 0; w < W; ++w) value.of[w] = operation.Combine(k, value.of[w], x.of[w]);
    }
    WritePack(y + i, value);
  }
};

template <typename T>
struct Scale {
  float factor;
  const T* dy;
  T* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = ReadPack<W>(dy + i);
    for (int w = 0; w < W; ++w) value.of[w] *= factor;
    WritePack(dx + i, value);
  }
};

/// dy times all other inputs.
template <typename T>
struct ProductGradient {
  Inputs<T> in;
  int own;
  const T* dy;
  T* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = ReadPack<W>(dy + i);
    for (int k = 0; k < in.count; ++k) {
      if (k == own) continue;
      const Pack<float, W> x = ReadPack<W>(in.x[k] + i);
      for (int w = 0; w < W; ++w) value.of[w] *= x.of[w];
    }
    WritePack(dx + i, value);
  }
};

/// dy where the own input was the largest. That is found again rather than kept.
template <typename T>
struct MaximumGradient {
  Inputs<T> in;
  int own;
  const T* dy;
  T* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> best = ReadPack<W>(in.x[0] + i), value = ReadPack<W>(dy + i);
    bool owns[W];
    for (int w = 0; w < W; ++w) owns[w] = own == 0;
    for (int k = 1; k < in.count; ++k) {
      const Pack<float, W> x = ReadPack<W>(in.x[k] + i);
      for (int w = 0; w < W; ++w) {
        if (!Maximum::Replaces(k, best.of[w], x.of[w])) continue;
        best.of[w] = x.of[w];
        owns[w] = k == own;
      }
    }
    for (int w = 0; w < W; ++w) value.of[w] = owns[w] ? value.of[w] : 0;
    WritePack(dx + i, value);
  }
};

/// Product, weighted sum or maximum of inputs of one shape, in the first input's layout; inputs in other layouts go
/// through scratch.
template <typename T>
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
    const Inputs<T> in = Read(args);
    T* y = DataAs<T>(args.out[0]);
    switch (desc_.operation) {
      case EltwiseDesc::kSum: {
        WeightedSum sum;
        std::copy(desc_.coeff.begin(), desc_.coeff.end(), sum.coeff);
        return Run(in.packable() && Packable({y}), cuda::Forward<T, WeightedSum>{sum, in, y});
      }
      case EltwiseDesc::kProd:
        return Run(in.packable() && Packable({y}), cuda::Forward<T, Product>{{}, in, y});
      case EltwiseDesc::kMax:
        return Run(in.packable() && Packable({y}), cuda::Forward<T, Maximum>{{}, in, y});
    }
  }

  void BackwardInput(const OpArgs& args) override {
    const Inputs<T> in = desc_.operation == EltwiseDesc::kSum ? Inputs<T>() : Read(args);
    for (size_t k = 0; k < in_.size(); ++k) {
      T* dx = DataAs<T>(args.d_in[k]);
      if (dx == nullptr) continue;
      const bool foreign = !SameOrder(in_[k], in_[0]);
      T* target = foreign ? reinterpret_cast<T*>(args.scratch) : dx;
      Gradient(static_cast<int>(k), in, DataAs<T>(args.d_out[0]), target);
      if (foreign) CopyLayout(context_.stream(), in_[0], target, in_[k], dx);
    }
  }
  bool backward_reads_input() const override { return desc_.operation != EltwiseDesc::kSum; }
  bool backward_reads_output() const override { return false; }

 private:
  template <typename Functor>
  void Run(bool packable, const Functor& functor) const {
    ForEachPack<kPackWidth<T>>(context_.stream(), count_, packable, functor);
  }

  void Gradient(int k, const Inputs<T>& in, const T* dy, T* dx) const {
    const bool packable = in.packable() && Packable({dy, dx});
    switch (desc_.operation) {
      case EltwiseDesc::kSum:
        return Run(packable, Scale<T>{desc_.coeff[k], dy, dx});
      case EltwiseDesc::kProd:
        return Run(packable, ProductGradient<T>{in, k, dy, dx});
      case EltwiseDesc::kMax:
        return Run(packable, MaximumGradient<T>{in, k, dy, dx});
    }
  }

  /// The inputs in the first one's layout.
  Inputs<T> Read(const OpArgs& args) const {
    T* place = reinterpret_cast<T*>(args.scratch);
    Inputs<T> in;
    in.count = static_cast<int>(in_.size());
    for (size_t k = 0; k < in_.size(); ++k) {
      in.x[k] = DataAs<T>(args.in[k]);
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

StatusOr<Backend::OpPtr> CudaBackend::Eltwise(const EltwiseDesc& desc, const Descs& in) {
  if (in.size() > kInputs) {
    return FailedPrecondition("Eltwise has %zu bottoms; expected at most %d on a GPU", in.size(), kInputs);
  }
  const bool one_type =
      std::all_of(in.begin(), in.end(), [&](const TensorDesc& d) { return d.element == in[0].element; });
  if (!one_type) return OnFloat32(context_, in, [&](const auto& float32) { return Eltwise(desc, float32); });
  return WithElementType(in[0].element, [&](auto type) -> Backend::OpPtr {
    return std::make_unique<EltwiseOp<typename decltype(type)::Type>>(context_, desc, in);
  });
}

}  // namespace hp::cuda

// Reduction and ArgMax, of float32; 16-bit inputs are converted.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"
#include "backend/reduction_rules.h"

namespace hp::cuda {
namespace {

/// Reads a row of x, writes its sum.
struct RowTerms {
  using Value = double;
  ReductionRule rule;
  float coeff;
  int64_t width;
  const float* x;
  float* y;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return rule.Term(x[row * width + i]); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& sum) const { y[row] = static_cast<float>(coeff * sum); }
};

/// Reads dy, and x where there is one; writes dx.
struct RowSlopes {
  ReductionRule rule;
  float coeff;
  int64_t width;
  const float *x, *dy;
  float* dx;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    const int64_t at = row * width + i;
    dx[at] = coeff * dy[row] * rule.Slope(x == nullptr ? 0 : x[at]);
  }
};

class ReductionOp final : public Op {
 public:
  ReductionOp(const GpuContext& context, const ReductionDesc& desc, const TensorDesc& in)
      : context_(context),
        rule_{desc.operation},
        coeff_(desc.coeff),
        in_(in),
        rows_(in.shape.count(0, desc.axis)),
        width_(in.shape.count(desc.axis)) {
    const std::vector<int64_t>& dims = in.shape.dims();
    outputs_ = {{Shape(std::vector<int64_t>(dims.begin(), dims.begin() + desc.axis)), 1}};
    if (Foreign()) scratch_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    const RowTerms terms = {rule_, coeff_, width_, DenseInput(args), args.out[0].floats()};
    constexpr int64_t kShort = 32;
    if (width_ <= kShort) {
      ReduceShortRows(context_.stream(), rows_, width_, terms);
    } else {
      ReduceRows(context_.stream(), rows_, width_, terms);
    }
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float* const x = backward_reads_input() ? DenseInput(args) : nullptr;
    float* const dx = Foreign() ? reinterpret_cast<float*>(args.scratch) : args.d_in[0].floats();
    ForEachInRows(context_.stream(), rows_, width_, RowSlopes{rule_, coeff_, width_, x, args.d_out[0].floats(), dx});
    if (Foreign()) CopyLayout(context_.stream(), {in_.shape, 1}, dx, in_, args.d_in[0].data);
  }
  bool backward_reads_input() const override { return rule_.operation != ReductionRule::kSum; }
  bool backward_reads_output() const override { return false; }

 private:
  bool Foreign() const { return !SameOrder(in_, {in_.shape, 1}); }
  const float* DenseInput(const OpArgs& args) const {
    if (!Foreign()) return args.in[0].floats();
    CopyLayout(context_.stream(), in_, args.in[0].data, {in_.shape, 1}, args.scratch);
    return reinterpret_cast<const float*>(args.scratch);
  }

  const GpuContext context_;
  const ReductionRule rule_;
  const float coeff_;
  const TensorDesc in_;
  const int64_t rows_, width_;
};

/// A thread for each column goes over it once for each place. Reads x, writes y.
struct RankColumn {
  ArgMaxDesc desc;
  const float* x;
  float* y;
  HP_HOST_DEVICE void operator()(int64_t column) const {
    const int64_t outer = column / desc.inner, at = column - outer * desc.inner;
    const float* const from = x + outer * desc.width * desc.inner + at;
    float* const to = y + outer * (desc.indices + desc.values) * desc.top_k * desc.inner + at;
    RankedElement last;
    for (int64_t k = 0; k < desc.top_k; ++k) {
      RankedElement best;
      for (int64_t i = 0; i < desc.width; ++i) {
        const RankedElement here = {from[i * desc.inner], i};
        if (last.IsBefore(here) == (last.index >= 0) && here.IsBefore(best)) best = here;
      }
      last = best;
      if (desc.indices) to[k * desc.inner] = static_cast<float>(last.index);
      if (desc.values) to[(k + (desc.indices ? desc.top_k : 0)) * desc.inner] = last.value;
    }
  }
};

class ArgMaxOp final : public Op {
 public:
  ArgMaxOp(const GpuContext& context, const ArgMaxDesc& desc, const Shape& out, const TensorDesc& in)
      : context_(context), desc_(desc), in_(in) {
    outputs_ = {{out, 1}};
    if (Foreign()) scratch_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    const float* x = args.in[0].floats();
    if (Foreign()) {
      CopyLayout(context_.stream(), in_, x, {in_.shape, 1}, args.scratch);
      x = reinterpret_cast<const float*>(args.scratch);
    }
    ForEach(context_.stream(), in_.count() / desc_.width, RankColumn{desc_, x, args.out[0].floats()});
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) Sum(context_.stream(), in_, {}, args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  bool Foreign() const { return !SameOrder(in_, {in_.shape, 1}); }

  const GpuContext context_;
  const ArgMaxDesc desc_;
  const TensorDesc in_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Reduction(const ReductionDesc& desc, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<ReductionOp>(context_, desc, float32[0]));
  });
}

StatusOr<Backend::OpPtr> CudaBackend::ArgMax(const ArgMaxDesc& desc, const Shape& out, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<ArgMaxOp>(context_, desc, out, float32[0]));
  });
}

}  // namespace hp::cuda

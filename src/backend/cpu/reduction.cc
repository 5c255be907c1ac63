// Reduction and ArgMax.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/reduction_rules.h"

#include <algorithm>

namespace hp {
namespace {

float* ScratchOf(const OpArgs& args) { return reinterpret_cast<float*>(args.scratch); }

/// Rows of a dense input, added in double from the first element to the last.
class ReductionOp final : public Op {
 public:
  ReductionOp(const ReductionDesc& desc, const TensorDesc& in)
      : rule_{desc.operation},
        coeff_(desc.coeff),
        in_(in),
        rows_(in.shape.count(0, desc.axis)),
        width_(in.shape.count(desc.axis)) {
    const std::vector<int64_t>& dims = in.shape.dims();
    outputs_ = {{Shape(std::vector<int64_t>(dims.begin(), dims.begin() + desc.axis)), 1}};
    if (Foreign()) scratch_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    const float* const x = DenseInput(args);
    float* const y = args.out[0].floats();
    ForItems(rows_, rows_ * width_, [=, this](int64_t row) {
      double sum = 0;
      for (int64_t i = 0; i < width_; ++i) sum += rule_.Term(x[row * width_ + i]);
      y[row] = static_cast<float>(coeff_ * sum);
    });
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float *const dy = args.d_out[0].floats(), *const x = backward_reads_input() ? DenseInput(args) : nullptr;
    float* const dx = Foreign() ? ScratchOf(args) : args.d_in[0].floats();
    ForItems(rows_, rows_ * width_, [=, this](int64_t row) {
      const float by = coeff_ * dy[row];
      for (int64_t i = row * width_; i < (row + 1) * width_; ++i) dx[i] = by * rule_.Slope(x == nullptr ? 0 : x[i]);
    });
    if (Foreign()) CopyLayout({in_.shape, 1}, dx, in_, args.d_in[0].floats());
  }
  bool backward_reads_input() const override { return rule_.operation != ReductionRule::kSum; }
  bool backward_reads_output() const override { return false; }

 private:
  bool Foreign() const { return !SameOrder(in_, {in_.shape, 1}); }
  const float* DenseInput(const OpArgs& args) const {
    if (!Foreign()) return args.in[0].floats();
    CopyLayout(in_, args.in[0].floats(), {in_.shape, 1}, ScratchOf(args));
    return ScratchOf(args);
  }

  const ReductionRule rule_;
  const float coeff_;
  const TensorDesc in_;
  const int64_t rows_, width_;
};

/// Goes over a row once for each place.
class ArgMaxOp final : public Op {
 public:
  ArgMaxOp(const ArgMaxDesc& desc, const Shape& out, const TensorDesc& in) : desc_(desc), in_(in), inner_(desc.inner) {
    outputs_ = {{out, 1}};
    if (Foreign()) scratch_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    const float* x = args.in[0].floats();
    if (Foreign()) {
      CopyLayout(in_, x, {in_.shape, 1}, ScratchOf(args));
      x = ScratchOf(args);
    }
    float* const y = args.out[0].floats();
    const int64_t places = (desc_.indices + desc_.values) * desc_.top_k, columns = in_.count() / desc_.width;
    ForItems(columns, in_.count() * desc_.top_k, [=, this](int64_t column) {
      const int64_t outer = column / inner_, at = column % inner_;
      const float* const from = x + outer * desc_.width * inner_ + at;
      float* to = y + outer * places * inner_ + at;
      RankedElement last;
      for (int64_t k = 0; k < desc_.top_k; ++k) {
        last = NextIn(from, last);
        if (desc_.indices) to[k * inner_] = static_cast<float>(last.index);
        if (desc_.values) to[(k + (desc_.indices ? desc_.top_k : 0)) * inner_] = last.value;
      }
    });
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) std::fill_n(args.d_in[0].floats(), in_.count(), 0.0f);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  bool Foreign() const { return !SameOrder(in_, {in_.shape, 1}); }
  /// The first of those behind `last`.
  RankedElement NextIn(const float* from, const RankedElement& last) const {
    RankedElement best;
    for (int64_t i = 0; i < desc_.width; ++i) {
      const RankedElement here = {from[i * inner_], i};
      if (last.IsBefore(here) == (last.index >= 0) && here.IsBefore(best)) best = here;
    }
    return best;
  }

  const ArgMaxDesc desc_;
  const TensorDesc in_;
  const int64_t inner_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Reduction(const ReductionDesc& desc, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<ReductionOp>(desc, floats[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::ArgMax(const ArgMaxDesc& desc, const Shape& out, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<ArgMaxOp>(desc, out, floats[0]));
  });
}

}  // namespace hp

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include <algorithm>

namespace hp {
namespace {

/// Elements in the order of the first input's memory, squares of a row added in double. A second input in another
/// layout goes through scratch, behind a loss for each row. Saved: by which factor of the difference each row's
/// gradient is.
class ContrastiveLossOp final : public Op {
 public:
  ContrastiveLossOp(const ContrastiveLossDesc& desc, const Backend::Descs& in)
      : desc_(desc), in_(in), rows_(in[0].shape[0]), width_(in[0].shape.count(1)), foreign_(!SameOrder(in[0], in[1])) {
    outputs_ = {{{1}, 1}};
    saved_bytes_ = rows_ * sizeof(float);
    scratch_bytes_ = rows_ * sizeof(double) + (foreign_ ? in[1].bytes() : 0);
  }

  void Forward(const OpArgs& args) override {
    const float* const similar = in_.size() > 2 ? args.in[2].floats() : args.batch->labels.data();
    const float *const a = args.in[0].floats(), *const b = Second(args);
    float* const factors = reinterpret_cast<float*>(args.saved);
    double* const losses = reinterpret_cast<double*>(args.scratch);
    ForItems(rows_, rows_ * width_, [&](int64_t row) {
      double squares = 0;
      for (int64_t at = row * width_; at < (row + 1) * width_; ++at) {
        const double difference = static_cast<double>(a[at]) - static_cast<double>(b[at]);
        squares += difference * difference;
      }
      const float d2 = static_cast<float>(squares);
      losses[row] = desc_.rule.Value(d2, SaysSimilar(similar[row]));
      factors[row] = desc_.rule.Factor(d2, SaysSimilar(similar[row]));
    });
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) sum += losses[row];
    args.out[0].floats()[0] = static_cast<float>(sum / Normalizer(args));
  }

  void BackwardInput(const OpArgs& args) override {
    const float weight = static_cast<float>(desc_.loss_weight / Normalizer(args)) * args.batch->loss_scale;
    const float* const b = Second(args);
    if (args.d_in[0].data != nullptr) PutGradient(args, b, weight, args.d_in[0].floats());
    if (args.d_in[1].data != nullptr) {
      float* const own = foreign_ ? Copy(args) : args.d_in[1].floats();
      PutGradient(args, b, -weight, own);  // in place of the copy, each element of which is read before
      if (foreign_) CopyLayout(InOrderOfFirst(), own, in_[1], args.d_in[1].floats());
    }
    if (in_.size() > 2 && args.d_in[2].data != nullptr) std::fill_n(args.d_in[2].floats(), in_[2].count(), 0.0f);
  }
  bool backward_reads_output() const override { return false; }

 private:
  double Normalizer(const OpArgs& args) const {
    return static_cast<double>(std::max<int64_t>(args.batch->global_rows, 1));
  }
  float* Copy(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch + rows_ * sizeof(double)); }
  TensorDesc InOrderOfFirst() const { return {in_[1].shape, in_[0].channel_block}; }
  const float* Second(const OpArgs& args) const {
    if (!foreign_) return args.in[1].floats();
    CopyLayout(in_[1], args.in[1].floats(), InOrderOfFirst(), Copy(args));
    return Copy(args);
  }
  void PutGradient(const OpArgs& args, const float* b, float weight, float* to) const {
    const float* const a = args.in[0].floats();
    const float* const factors = reinterpret_cast<const float*>(args.saved);
    ForItems(rows_, rows_ * width_, [&](int64_t row) {
      const float by = weight * factors[row];
      for (int64_t at = row * width_; at < (row + 1) * width_; ++at) to[at] = by * (a[at] - b[at]);
    });
  }

  const ContrastiveLossDesc desc_;
  const Backend::Descs in_;
  const int64_t rows_, width_;
  const bool foreign_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::ContrastiveLoss(const ContrastiveLossDesc& desc, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<ContrastiveLossOp>(desc, floats));
  });
}

}  // namespace hp

#include "backend/class_axis.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/loss_rows.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/softmax_math.h"
#include "backend/infogain_rule.h"

#include "glog/logging.h"

#include <algorithm>
#include <numeric>

namespace hp {
namespace {

/// Of [rows, classes, pixels] (ClassAxis). The probabilities are saved for the backward pass, dense; logits and their
/// gradient in another layout go through them and through scratch. Losses are added for each row, and then those of
/// rows. Source of the rules: Caffe's InfogainLossLayer.
class InfogainLossOp final : public Op {
 public:
  InfogainLossOp(const InfogainLossDesc& desc, const TensorDesc& in)
      : desc_(desc),
        in_(in),
        dense_{in.shape, 1},
        at_(in.shape, desc.loss.axis),
        rows_(at_.rows),
        classes_(at_.classes),
        pixels_(at_.pixels),
        rule_(desc.loss, classes_, at_) {
    CHECK_EQ(static_cast<int64_t>(desc.matrix.size()), classes_ * classes_);
    for (int64_t label = 0; label < classes_; ++label) {
      sums_.push_back(static_cast<float>(std::accumulate(RowOf(label), RowOf(label) + classes_, 0.0)));
    }
    outputs_ = {{{1}, 1}};
    if (desc.loss.probabilities) outputs_.push_back({in.shape, 1});
    saved_bytes_ = in.bytes();
    scratch_bytes_ = std::max(rows_ * sizeof(double), foreign() ? dense_.bytes() : 0);
  }

  void Forward(const OpArgs& args) override {
    float* const probabilities = reinterpret_cast<float*>(args.saved);
    ComputeProbabilities(args, probabilities);
    double* const losses = reinterpret_cast<double*>(args.scratch);
    ForItems(rows_, kExpCost * dense_.count(),
             [&](int64_t row) { losses[row] = RowLoss(*args.batch, probabilities, row); });
    const double sum = std::accumulate(losses, losses + rows_, 0.0);
    args.out[0].floats()[0] = static_cast<float>(sum / rule_.Normalizer(*args.batch));
    if (desc_.loss.probabilities) std::copy_n(probabilities, dense_.count(), args.out[1].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    float* const d_logits = args.d_in[0].floats();
    if (d_logits == nullptr) return;
    const float* const p = reinterpret_cast<const float*>(args.saved);
    const float scale = rule_.GradientScale(*args.batch);
    float* const to = foreign() ? reinterpret_cast<float*>(args.scratch) : d_logits;
    ForItems(rows_, dense_.count(), [&](int64_t row) {
      for (int64_t pixel = 0; pixel < pixels_; ++pixel) {
        const int64_t label = rule_.CountedLabel(*args.batch, row * pixels_ + pixel);
        for (int64_t c = 0; c < classes_; ++c) {
          const int64_t i = (row * classes_ + c) * pixels_ + pixel;
          to[i] = label < 0 ? 0 : scale * InfogainRule::Gradient(RowOf(label)[c], sums_[label], p[i]);
        }
      }
    });
    if (foreign()) CopyLayout(dense_, to, in_, d_logits);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  bool foreign() const { return !SameOrder(in_, dense_); }
  const float* RowOf(int64_t label) const { return desc_.matrix.data() + label * classes_; }

  void ComputeProbabilities(const OpArgs& args, float* to) const {
    const float* logits = args.in[0].floats();
    if (foreign()) {
      CopyLayout(in_, logits, dense_, to);
      logits = to;
    }
    ComputeSoftmax(logits, rows_, classes_, pixels_, to);
  }
  /// The sum over the row's pixels.
  double RowLoss(const BatchContext& batch, const float* probabilities, int64_t row) const {
    double sum = 0;
    for (int64_t pixel = 0; pixel < pixels_; ++pixel) {
      const int64_t label = rule_.CountedLabel(batch, row * pixels_ + pixel);
      const float* const p = probabilities + row * classes_ * pixels_ + pixel;
      for (int64_t c = 0; label >= 0 && c < classes_; ++c) sum += InfogainRule::Loss(RowOf(label)[c], p[c * pixels_]);
    }
    return sum;
  }

  const InfogainLossDesc desc_;
  const TensorDesc in_, dense_;
  const ClassAxis at_;
  const int64_t rows_, classes_, pixels_;
  const LossRows rule_;
  std::vector<float> sums_;  ///< of the matrix's rows
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::InfogainLoss(const InfogainLossDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<InfogainLossOp>(desc, floats[0]));
  };
  return OnFloat32(in, make, /*dense=*/desc.loss.axis != 1);
}

}  // namespace hp

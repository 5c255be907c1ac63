#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loss_rows.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/softmax_math.h"
#include "backend/infogain_rule.h"

#include "glog/logging.h"

#include <algorithm>
#include <numeric>

namespace hp {
namespace {

/// Of [rows, classes]; one pixel, so every layout is the dense one. The probabilities are saved for the backward pass;
/// a loss for each row is in scratch. Source of the rules: Caffe's InfogainLossLayer.
class InfogainLossOp final : public Op {
 public:
  InfogainLossOp(const InfogainLossDesc& desc, const TensorDesc& in)
      : desc_(desc), rule_(desc.loss, in.shape[1]), rows_(in.shape[0]), classes_(in.shape[1]) {
    CHECK(in.count() == rows_ * classes_) << "logits " << in.shape;
    CHECK_EQ(static_cast<int64_t>(desc.matrix.size()), classes_ * classes_);
    for (int64_t label = 0; label < classes_; ++label) {
      sums_.push_back(static_cast<float>(std::accumulate(RowOf(label), RowOf(label) + classes_, 0.0)));
    }
    outputs_ = {{{1}, 1}};
    if (desc.loss.probabilities) outputs_.push_back({in.shape, 1});
    saved_bytes_ = in.bytes();
    scratch_bytes_ = rows_ * sizeof(double);
  }

  void Forward(const OpArgs& args) override {
    float* const probabilities = reinterpret_cast<float*>(args.saved);
    double* const losses = reinterpret_cast<double*>(args.scratch);
    ComputeSoftmax(args.in[0].floats(), rows_, classes_, 1, probabilities);
    ForItems(rows_, kExpCost * rows_ * classes_, [&](int64_t row) {
      const int64_t label = rule_.CountedLabel(*args.batch, row);
      const float* const p = probabilities + row * classes_;
      losses[row] = 0;
      for (int64_t c = 0; label >= 0 && c < classes_; ++c) losses[row] += InfogainRule::Loss(RowOf(label)[c], p[c]);
    });
    const double sum = std::accumulate(losses, losses + rows_, 0.0);
    args.out[0].floats()[0] = static_cast<float>(sum / rule_.Normalizer(*args.batch));
    if (desc_.loss.probabilities) std::copy_n(probabilities, rows_ * classes_, args.out[1].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    float* const d_logits = args.d_in[0].floats();
    if (d_logits == nullptr) return;
    const float* const probabilities = reinterpret_cast<const float*>(args.saved);
    const float scale = rule_.GradientScale(*args.batch);
    ForItems(rows_, rows_ * classes_, [&](int64_t row) {
      float* const to = d_logits + row * classes_;
      const float* const p = probabilities + row * classes_;
      const int64_t label = rule_.CountedLabel(*args.batch, row);
      if (label < 0) {
        std::fill_n(to, classes_, 0.0f);
        return;
      }
      const float* const gains = RowOf(label);
      const float sum = sums_[label];
      for (int64_t c = 0; c < classes_; ++c) to[c] = scale * InfogainRule::Gradient(gains[c], sum, p[c]);
    });
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const float* RowOf(int64_t label) const { return desc_.matrix.data() + label * classes_; }

  const InfogainLossDesc desc_;
  const LossRows rule_;
  const int64_t rows_, classes_;
  std::vector<float> sums_;  ///< of the matrix's rows
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::InfogainLoss(const InfogainLossDesc& desc, const Descs& in) {
  return OpPtr(std::make_unique<InfogainLossOp>(desc, in[0]));
}

}  // namespace hp

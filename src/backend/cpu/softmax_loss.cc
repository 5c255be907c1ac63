#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loss_rows.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/softmax_math.h"

#include "glog/logging.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>

namespace hp {
namespace {

/// Softmax and multinomial logistic loss of [rows, classes]; one pixel, so every layout is the dense one. The
/// probabilities are saved for the backward pass. Source of the rules: Caffe's SoftmaxWithLossLayer.
class SoftmaxLossOp final : public Op {
 public:
  SoftmaxLossOp(const SoftmaxLossDesc& desc, const TensorDesc& in)
      : desc_(desc), rule_(desc, in.shape[1]), rows_(in.shape[0]), classes_(in.shape[1]) {
    CHECK(desc.axis == 1 && in.count() == rows_ * classes_) << "logits " << in.shape;
    outputs_ = {{{1}, 1}};
    if (desc.probabilities) outputs_.push_back({in.shape, 1});
    if (desc.margin) margin_.emplace(*desc.margin);
    saved_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    float* probabilities = reinterpret_cast<float*>(args.saved);
    const float* const logits = margin_ ? WithMargin(args, probabilities) : args.in[0].floats();
    ComputeSoftmax(logits, rows_, classes_, 1, probabilities);
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      if (!rule_.IsCounted(*args.batch, row)) continue;
      const float probability = probabilities[row * classes_ + LabelOf(args.batch->labels[row])];
      sum -= std::log(std::max(probability, FLT_MIN));  // in this order a NaN stays
    }
    args.out[0].floats()[0] = static_cast<float>(sum / rule_.Normalizer(*args.batch));
    if (desc_.probabilities) std::copy_n(probabilities, rows_ * classes_, args.out[1].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    float* d_logits = args.d_in[0].floats();
    if (d_logits == nullptr) return;
    const float* probabilities = reinterpret_cast<const float*>(args.saved);
    const float scale = rule_.GradientScale(*args.batch);
    ForItems(rows_, rows_ * classes_, [&](int64_t row) {
      float* to = d_logits + row * classes_;
      const float* p = probabilities + row * classes_;
      if (!rule_.IsCounted(*args.batch, row)) {
        std::fill_n(to, classes_, 0.0f);
        return;
      }
      const int64_t label = LabelOf(args.batch->labels[row]);
      for (int64_t c = 0; c < classes_; ++c) to[c] = scale * p[c];
      to[label] = scale * (p[label] - 1);
    });
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  /// The logits of all rows, at `to`.
  const float* WithMargin(const OpArgs& args, float* to) const {
    ForItems(rows_, rows_ * classes_, [&](int64_t row) {
      const int64_t at = row * classes_;
      MarginLogits(*margin_, args.in[0].floats() + at, classes_, rule_.CountedLabel(*args.batch, row), to + at);
    });
    return to;
  }

  const SoftmaxLossDesc desc_;
  const LossRows rule_;
  const int64_t rows_, classes_;
  std::optional<MarginRule> margin_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SoftmaxLossOp>(desc, in[0]));
}

}  // namespace hp

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
      : desc_(desc),
        rule_(desc, desc.sample_of > 0 ? desc.sample_of : in.shape[1]),
        rows_(in.shape[0]),
        columns_(in.shape[1]) {
    CHECK(desc.axis == 1 && in.count() == rows_ * columns_) << "logits " << in.shape;
    CHECK(desc.sample_of == 0 || !desc.probabilities) << "the softmax of a sample is not the softmax";
    outputs_ = {{{1}, 1}};
    if (desc.probabilities) outputs_.push_back({in.shape, 1});
    if (desc.margin) margin_.emplace(*desc.margin);
    saved_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    float* probabilities = reinterpret_cast<float*>(args.saved);
    ComputeProbabilities(args, probabilities);
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t label = LabelColumn(args, row);
      if (label < 0) continue;
      const float probability = probabilities[row * columns_ + label];
      sum -= std::log(std::max(probability, FLT_MIN));  // in this order a NaN stays
    }
    args.out[0].floats()[0] = static_cast<float>(sum / rule_.Normalizer(*args.batch));
    if (desc_.probabilities) std::copy_n(probabilities, rows_ * columns_, args.out[1].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    float* d_logits = args.d_in[0].floats();
    if (d_logits == nullptr) return;
    const float* probabilities = reinterpret_cast<const float*>(args.saved);
    const float scale = rule_.GradientScale(*args.batch);
    const int64_t classes = Classes(args);
    ForItems(rows_, rows_ * classes, [&](int64_t row) {
      float* to = d_logits + row * columns_;
      const float* p = probabilities + row * columns_;
      const int64_t label = LabelColumn(args, row);
      if (label < 0) {
        std::fill_n(to, classes, 0.0f);
        return;
      }
      for (int64_t c = 0; c < classes; ++c) to[c] = scale * p[c];
      to[label] = scale * (p[label] - 1);
    });
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  /// Columns of a row that are logits.
  int64_t Classes(const OpArgs& args) const { return args.sample != nullptr ? args.sample->columns() : columns_; }
  /// The column of the row's label, or -1 if the row is not counted.
  int64_t LabelColumn(const OpArgs& args, int64_t row) const {
    const int64_t label = rule_.CountedLabel(*args.batch, row);
    return label < 0 || args.sample == nullptr ? label : args.sample->ColumnOf(label);
  }

  void ComputeProbabilities(const OpArgs& args, float* to) const {
    const int64_t classes = Classes(args);
    ForItems(rows_, kExpCost * rows_ * classes, [&](int64_t row) {
      const int64_t at = row * columns_;
      const float* logits = args.in[0].floats() + at;
      if (margin_) {
        MarginLogits(*margin_, logits, classes, LabelColumn(args, row), to + at);
        logits = to + at;
      }
      ComputeSoftmax(logits, 1, classes, 1, to + at);
    });
  }

  const SoftmaxLossDesc desc_;
  const LossRows rule_;
  const int64_t rows_, columns_;
  std::optional<MarginRule> margin_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SoftmaxLossOp>(desc, in[0]));
}

}  // namespace hp

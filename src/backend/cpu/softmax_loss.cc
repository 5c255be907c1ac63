#include "backend/class_axis.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/loss_rows.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/softmax_math.h"

#include "glog/logging.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>

namespace hp {
namespace {

/// Softmax and multinomial logistic loss of [rows, classes, pixels] (ClassAxis). The probabilities are saved for the
/// backward pass, dense; logits and their gradient in another layout go through them and through scratch. Losses are
/// added for each row, and then those of rows, so that the sum does not depend on the number of threads. Source of the
/// rules: Caffe's SoftmaxWithLossLayer.
class SoftmaxLossOp final : public Op {
 public:
  SoftmaxLossOp(const SoftmaxLossDesc& desc, const TensorDesc& in)
      : desc_(desc),
        in_(in),
        dense_{in.shape, 1},
        at_(in.shape, desc.axis),
        rows_(at_.rows),
        columns_(at_.classes),
        pixels_(at_.pixels),
        rule_(desc, desc.sample_of > 0 ? desc.sample_of : at_.classes, at_) {
    CHECK(desc.sample_of == 0 || !desc.probabilities) << "the softmax of a sample is not the softmax";
    CHECK(at_.labels == 1 || (desc.sample_of == 0 && !desc.margin)) << "logits " << in.shape;
    outputs_ = {{{1}, 1}};
    if (desc.probabilities) outputs_.push_back({in.shape, 1});
    if (desc.margin) margin_.emplace(*desc.margin);
    saved_bytes_ = in.bytes();
    scratch_bytes_ = std::max(rows_ * sizeof(double), foreign() ? dense_.bytes() : 0);
  }

  void Forward(const OpArgs& args) override {
    float* probabilities = reinterpret_cast<float*>(args.saved);
    ComputeProbabilities(args, probabilities);
    double* const sums = reinterpret_cast<double*>(args.scratch);
    ForItems(rows_, kExpCost * rows_ * pixels_, [&](int64_t row) { sums[row] = RowLoss(args, probabilities, row); });
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) sum += sums[row];
    args.out[0].floats()[0] = static_cast<float>(sum / rule_.Normalizer(*args.batch));
    if (desc_.probabilities) std::copy_n(probabilities, dense_.count(), args.out[1].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    float* d_logits = args.d_in[0].floats();
    if (d_logits == nullptr) return;
    const float* probabilities = reinterpret_cast<const float*>(args.saved);
    const float scale = rule_.GradientScale(*args.batch);
    if (pixels_ > 1) return PutPixelGradient(args, probabilities, scale, d_logits);
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
  bool foreign() const { return !SameOrder(in_, dense_); }
  /// The sum over the row's pixels.
  double RowLoss(const OpArgs& args, const float* probabilities, int64_t row) const {
    double sum = 0;
    for (int64_t pixel = 0; pixel < pixels_; ++pixel) {
      const int64_t label = LabelColumn(args, row * pixels_ + pixel);
      if (label < 0) continue;
      const float probability = probabilities[(row * columns_ + label) * pixels_ + pixel];
      sum -= std::log(std::max(probability, FLT_MIN));  // in this order a NaN stays
    }
    return sum;
  }
  void PutPixelGradient(const OpArgs& args, const float* probabilities, float scale, float* d_logits) const {
    float* const dense = foreign() ? reinterpret_cast<float*>(args.scratch) : d_logits;
    ForItems(rows_ * columns_, dense_.count(), [&](int64_t plane) {
      const int64_t column = plane % columns_;
      const int64_t at = plane / columns_ * pixels_;  // of the row's labels
      for (int64_t pixel = 0; pixel < pixels_; ++pixel) {
        const int64_t label = LabelColumn(args, at + pixel), i = plane * pixels_ + pixel;
        const float gradient = scale * (column == label ? probabilities[i] - 1 : probabilities[i]);
        dense[i] = label < 0 ? 0 : gradient;
      }
    });
    if (foreign()) CopyLayout(dense_, dense, in_, d_logits);
  }
  /// Columns of a row that are logits.
  int64_t Classes(const OpArgs& args) const { return args.sample != nullptr ? args.sample->columns() : columns_; }
  /// The column of label `at` ([rows, pixels]), or -1 if it is not counted.
  int64_t LabelColumn(const OpArgs& args, int64_t at) const {
    const int64_t label = rule_.CountedLabel(*args.batch, at);
    return label < 0 || args.sample == nullptr ? label : args.sample->ColumnOf(label);
  }

  void ComputeProbabilities(const OpArgs& args, float* to) const {
    if (pixels_ > 1) {
      const float* logits = args.in[0].floats();
      if (foreign()) CopyLayout(in_, logits, dense_, to);
      return ComputeSoftmax(foreign() ? to : logits, rows_, columns_, pixels_, to);
    }
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
  const TensorDesc in_, dense_;
  const ClassAxis at_;
  const int64_t rows_, columns_, pixels_;
  const LossRows rule_;
  std::optional<MarginRule> margin_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<SoftmaxLossOp>(desc, floats[0]));
  };
  return OnFloat32(in, make, /*dense=*/desc.axis != 1);
}

}  // namespace hp

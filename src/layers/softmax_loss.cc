#include "layers/errors.h"
#include "layers/factories.h"
#include "layers/labels.h"
#include "proto/caffe.pb.h"

#include <algorithm>

namespace hp {
namespace {

using Normalization = SoftmaxLossDesc::Normalization;

/// Caffe's rule: `normalization` where it is set, else the older `normalize` (true: VALID, false: BATCH_SIZE).
Normalization ChosenNormalization(const caffe::LossParameter& param) {
  if (!param.has_normalization() && param.has_normalize()) {
    return param.normalize() ? SoftmaxLossDesc::kValid : SoftmaxLossDesc::kBatchSize;
  }
  switch (param.normalization()) {
    case caffe::LossParameter::FULL:
      return SoftmaxLossDesc::kFull;
    case caffe::LossParameter::VALID:
      return SoftmaxLossDesc::kValid;
    case caffe::LossParameter::BATCH_SIZE:
      return SoftmaxLossDesc::kBatchSize;
    case caffe::LossParameter::NONE:
      return SoftmaxLossDesc::kNone;
  }
  return SoftmaxLossDesc::kValid;
}

/// Multinomial logistic loss of a softmax: top 0 is these rows' contribution to the normalised loss, not weighted;
/// a second top, where there is one, is the softmax.
class SoftmaxLossLayer : public Layer {
 public:
  explicit SoftmaxLossLayer(const caffe::LayerParameter& param) : Layer(param) {
    desc_.normalization = ChosenNormalization(param.loss_param());
    desc_.has_ignore_label = param.loss_param().has_ignore_label();
    desc_.ignore_label = param.loss_param().ignore_label();
    desc_.loss_weight = loss_weight(0);
    desc_.probabilities = param.top_size() > 1;
  }

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    HP_RETURN_IF_ERROR(CheckLabelledInputs(*this, in, param_.softmax_param().axis()));
    std::vector<Shape> out = {{1}};
    if (desc_.probabilities) out.push_back(in[0]);
    return out;
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->SoftmaxLoss(desc_, {in[0]});
  }
  bool reads_labels() const override { return true; }
  bool needs_batch_labels() const override {
    return desc_.has_ignore_label && desc_.normalization == SoftmaxLossDesc::kValid;
  }
  bool is_statistic() const override { return true; }
  float loss_weight(int top) const override {
    return param_.loss_weight_size() == 0 ? (top == 0 ? 1.0f : 0.0f) : Layer::loss_weight(top);
  }

 private:
  SoftmaxLossDesc desc_;
};

}  // namespace

StatusOr<LayerPtr> MakeSoftmaxLossLayer(const caffe::LayerParameter& param) {
  return LayerPtr(std::make_unique<SoftmaxLossLayer>(param));
}

}  // namespace hp

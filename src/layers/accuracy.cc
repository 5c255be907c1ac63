#include "layers/errors.h"
#include "layers/factories.h"
#include "layers/labels.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// The share of rows whose label is among the top_k largest scores, with Caffe's rule for ties: a score that equals the
/// label's ranks before it. Top 0 is these rows' contribution to the share of the whole batch.
class AccuracyLayer : public Layer {
 public:
  explicit AccuracyLayer(const caffe::LayerParameter& param) : Layer(param) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    const caffe::AccuracyParameter& accuracy = param_.accuracy_param();
    HP_RETURN_IF_ERROR(CheckLabelledInputs(*this, in, accuracy.axis()));
    if (accuracy.top_k() > in[0][1]) {
      return LayerError(param_, "top_k %u is more than the %lld classes of [%s]", accuracy.top_k(),
                        static_cast<long long>(in[0][1]), in[0].ToString().c_str());
    }
    return std::vector<Shape>{{1}};
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    AccuracyDesc desc;
    desc.top_k = static_cast<int>(param_.accuracy_param().top_k());
    desc.has_ignore_label = needs_batch_labels();
    desc.ignore_label = param_.accuracy_param().ignore_label();
    return context.backend->Accuracy(desc, {in[0]});
  }
  bool reads_labels() const override { return true; }
  bool needs_batch_labels() const override { return param_.accuracy_param().has_ignore_label(); }
  bool is_statistic() const override { return true; }
};

}  // namespace

StatusOr<LayerPtr> MakeAccuracyLayer(const caffe::LayerParameter& param) {
  if (param.top_size() > 1) return LayerError(param, "a second top (accuracy of each class) is not supported");
  if (param.accuracy_param().top_k() == 0) return LayerError(param, "top_k must be 1 or more");
  return LayerPtr(std::make_unique<AccuracyLayer>(param));
}

}  // namespace hp

#include "base/philox.h"
#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

#include "glog/logging.h"

namespace hp {
namespace {

/// Dropout with inverted scaling: units are dropped and the rest scaled by 1 / (1 - ratio) in training; a test passes
/// its input on. Source: Srivastava et al., JMLR 15 (2014); the scaling is Caffe's.
class DropoutLayer : public Layer {
 public:
  explicit DropoutLayer(const caffe::LayerParameter& param) : Layer(param) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    if (in[0].rank() < 2) {
      return LayerError(param_, "bottom has shape [%s]; wanted [rows, units...]", in[0].ToString().c_str());
    }
    return in;
  }

  /// Units are numbered within the whole layer, so that the mask does not depend on how it is sliced.
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    const Shape& shape = in[0].shape;
    const int64_t units_per_channel = shape.count(2);
    DropoutDesc desc;
    desc.ratio = param_.dropout_param().dropout_ratio();
    desc.stream_key = StreamKey(context.seed, name(), "dropout");
    desc.total_units = shape.count(1);
    if (context.channel_count > 0) {
      CHECK_EQ(context.channel_end - context.channel_begin, shape[1]) << "slice of layer " << name();
      desc.first_unit = context.channel_begin * units_per_channel;
      desc.total_units = context.channel_count * units_per_channel;
    }
    return context.backend->Dropout(desc, in);
  }
  ChannelUse channel_use() const override { return ChannelUse::kElementwise; }
  bool allows_in_place() const override { return true; }
};

}  // namespace

StatusOr<LayerPtr> MakeDropoutLayer(const caffe::LayerParameter& param) {
  const float ratio = param.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio < 1)) return LayerError(param, "dropout_ratio %g is not in [0, 1)", ratio);
  if (!param.dropout_param().scale_train()) {
    return LayerError(param, "scale_train: false (scaling in tests instead of in training) is not supported");
  }
  return LayerPtr(std::make_unique<DropoutLayer>(param));
}

}  // namespace hp

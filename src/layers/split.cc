#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// One bottom for several readers: the tops are its memory, and their gradients are added in the order of the tops.
class SplitLayer : public Layer {
 public:
  explicit SplitLayer(const caffe::LayerParameter& param) : Layer(param) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    return std::vector<Shape>(param_.top_size(), in[0]);
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Split(param_.top_size(), in);
  }
  ChannelUse channel_use() const override { return ChannelUse::kElementwise; }
};

}  // namespace

StatusOr<LayerPtr> MakeSplitLayer(const caffe::LayerParameter& param) {
  return LayerPtr(std::make_unique<SplitLayer>(param));
}

}  // namespace hp

#include "layers/errors.h"
#include "layers/factories.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Local response normalisation. `k` plays no part in WITHIN_CHANNEL, as in Caffe. `engine` chooses between
/// implementations of the same function: accepted.
class LrnLayer : public Layer {
 public:
  explicit LrnLayer(const caffe::LayerParameter& param) : Layer(param) {
    const caffe::LRNParameter& lrn = param.lrn_param();
    if (lrn.norm_region() == caffe::LRNParameter::WITHIN_CHANNEL) desc_.region = LrnDesc::kWithinChannel;
    desc_.local_size = lrn.local_size();
    desc_.alpha = lrn.alpha();
    desc_.beta = lrn.beta();
    desc_.k = lrn.k();
  }

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    if (in[0].rank() != 4) {
      return LayerError(param_, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                        in[0].ToString().c_str());
    }
    return in;
  }
  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Lrn(desc_, in);
  }

 private:
  LrnDesc desc_;
};

}  // namespace

StatusOr<LayerPtr> MakeLrnLayer(const caffe::LayerParameter& param) {
  const caffe::LRNParameter& lrn = param.lrn_param();
  constexpr uint32_t kLargest = 1023;  // beyond any image; keeps margins and buffers small numbers
  if (lrn.local_size() % 2 != 1 || lrn.local_size() > kLargest) {
    return LayerError(param, "lrn_param { local_size: %u }: expected an odd number of at most %u", lrn.local_size(),
                      kLargest);
  }
  return LayerPtr(std::make_unique<LrnLayer>(param));
}

}  // namespace hp

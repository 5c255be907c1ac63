#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

StatusOr<std::vector<Shape>> SplitShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  return std::vector<Shape>(param.top_size(), in[0]);
}

}  // namespace

LayerType SplitType() {
  return {.name = "Split",
          .tops = {1, kAnyNumber},
          .channel_use = ChannelUse::kElementwise,
          .output_shapes = SplitShapes,
          .elements = AllElements};
}

}  // namespace hp

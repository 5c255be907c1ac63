#include "layers/traits/built_in_types.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

StatusOr<std::vector<Shape>> NoShapes(const caffe::LayerParameter&, const std::vector<Shape>&) {
  return std::vector<Shape>();
}

}  // namespace

LayerType SilenceType() {
  return {.name = "Silence", .bottoms = {1, kAnyNumber}, .tops = {0, 0}, .discards = true, .output_shapes = NoShapes};
}

}  // namespace hp

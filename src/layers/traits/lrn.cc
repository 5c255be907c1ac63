#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

Status CheckLrn(const caffe::LayerParameter& param) {
  const caffe::LRNParameter& lrn = param.lrn_param();
  constexpr uint32_t kLargest = 1023;  // beyond any image; keeps margins and buffers small numbers
  if (lrn.local_size() % 2 == 1 && lrn.local_size() <= kLargest) return OkStatus();
  return LayerError(param, "lrn_param { local_size: %u }: expected an odd number of at most %u", lrn.local_size(),
                    kLargest);
}

StatusOr<std::vector<Shape>> LrnShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() == 4) return in;
  return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                    in[0].ToString().c_str());
}

}  // namespace

LayerType LrnType() { return {.name = "LRN", .fields = {"lrn_param"}, .check = CheckLrn, .output_shapes = LrnShapes}; }

}  // namespace hp

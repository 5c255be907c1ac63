#include "layers/traits/source_shapes.h"

#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {

StatusOr<std::vector<Shape>> RecordShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in.size() != 1 || in[0].rank() != 4)
    return LayerError(param, "cannot infer shapes without the shape [rows, channels, height, width] of its records");
  std::vector<Shape> out = in;
  out.resize(param.top_size(), {in[0][0]});
  return out;
}

}  // namespace hp

#include "layers/traits/source_shapes.h"

#include "base/words.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {

Status CheckLabelTops(const caffe::LayerParameter& param) {
  if (param.top_size() <= 2) return OkStatus();
  const std::string tops = Join(std::vector<std::string>(param.top().begin() + 1, param.top().end()));
  return LayerError(param,
                    "has %d tops; expected values (\"%s\") and at most one label for each row: several labels (%s) are "
                    "not supported",
                    param.top_size(), param.top(0).c_str(), tops.c_str());
}

StatusOr<std::vector<Shape>> RecordShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in.size() != 1 || in[0].rank() != 4)
    return LayerError(param, "cannot infer shapes without the shape [rows, channels, height, width] of its records");
  std::vector<Shape> out = in;
  if (param.top_size() > 1) out.push_back({in[0][0]});
  return out;
}

}  // namespace hp

// The shapes of a net's blobs, layer by layer.
#include "base/words.h"
#include "net/plan/graph.h"

#include <algorithm>
#include <string>

namespace hp {
namespace {

Shape TopShape(int64_t rows, const Shape& of_sample) {
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), of_sample.dims().begin(), of_sample.dims().end());
  return Shape(std::move(dims));
}

}  // namespace

const Shape& NetGraph::RowOf(const SourceTop& top, const SampleShape& sample) const {
  if (top.role == SourceTop::kLabels) return sample.label;
  return top.role == SourceTop::kData ? sample.data : sample.others[top.other];
}

// Where the Parameter's own shape counts: that of its reader's blob follows from what else it reads.
Status NetGraph::CheckHeld(const GraphLayer& layer, const std::vector<Shape>& in) const {
  if (layer.parameter == nullptr) return OkStatus();
  const auto& dims = layer.parameter->parameter_param().shape().dim();
  const Shape shape(std::vector<int64_t>(dims.begin(), dims.end())), wanted = layer.traits.Params(in)[0].shape;
  if (shape == wanted) return OkStatus();
  return InvalidArgument("layer \"%s\": has the shape [%s], and layer \"%s\", which reads it beside [%s], takes [%s]",
                         layer.traits.name().c_str(), shape.ToString().c_str(), net_->layer(layer.order).name().c_str(),
                         in[0].ToString().c_str(), wanted.ToString().c_str());
}

StatusOr<std::vector<Shape>> NetGraph::Shapes(const SampleShape& sample, int64_t rows) const {
  std::vector<std::string> others;
  for (const SourceTop& top : source_tops_) {
    if (top.role == SourceTop::kOther) others.push_back("\"" + net_->layer(top.layer).top(top.top) + "\"");
  }
  if (others.size() != sample.others.size()) {
    return InvalidArgument("a sample is %s; expected %zu shape(s) beside those of its data and labels%s%s",
                           sample.ToString().c_str(), others.size(), others.empty() ? "" : ": of ",
                           Join(others).c_str());
  }
  std::vector<Shape> shapes(blobs_.size());
  for (const GraphLayer& layer : layers_) {
    if (layer.source) {
      for (const SourceTop& top : source_tops_) {
        if (top.layer != layer.order) continue;
        const int blob = layer.tops[top.top];
        const Shape& of_sample = RowOf(top, sample);
        shapes[blob] = TopShape(rows, of_sample);
        if (shapes[blob].InBounds()) continue;
        return InvalidArgument("layer \"%s\": %lld samples of shape [%s] are too large; expected at most %lld elements",
                               layer.traits.name().c_str(), static_cast<long long>(rows), of_sample.ToString().c_str(),
                               static_cast<long long>(Shape::kMaxElements));
      }
      continue;
    }
    std::vector<Shape> in;
    for (int bottom : layer.bottoms) in.push_back(shapes[bottom]);
    if (layer.piece == GraphLayer::kSum) {
      shapes[layer.tops[0]] = in[0];
      continue;
    }
    if (layer.piece == GraphLayer::kMerged) {
      shapes[layer.tops[0]] = layer.is_statistic() ? Shape{1} : in[0];
      continue;
    }
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, layer.traits.OutputShapes(in));
    HP_RETURN_IF_ERROR(CheckHeld(layer, in));
    if (layer.piece == GraphLayer::kClasses) {
      shapes[layer.tops[0]] = {in[0].dim(0), layer.traits.class_split()->numbers * layer.class_shards};
      continue;
    }
    for (size_t i = 0; i < layer.tops.size() && i < out.size(); ++i) shapes[layer.tops[i]] = out[i];
  }
  return shapes;
}

}  // namespace hp

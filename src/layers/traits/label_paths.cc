#include "layers/traits/label_paths.h"

#include "proto/caffe.pb.h"
#include "proto/net_filter.h"

#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace hp {

std::vector<LabelPath> LabelPathsOf(const caffe::NetParameter& net, Phase phase, const LayerTypes& types) {
  std::vector<LabelPath> paths;
  std::map<std::string, LabelPath> current;  // by the name of a blob that is a source's, or made of one alone
  for (const int i : LayersOf(net, phase)) {
    const caffe::LayerParameter& layer = net.layer(i);
    const LayerType* const type = types.Find(layer.type());
    const bool classes = type != nullptr && type->reads_labels;
    const bool counts = type != nullptr && type->needs_batch_labels != nullptr && type->needs_batch_labels(layer);
    const bool passes_on = type != nullptr && type->elements != nullptr && layer.bottom_size() == 1;
    if ((classes || counts) && static_cast<int>(type->label_bottom) < layer.bottom_size()) {
      const auto found = current.find(layer.bottom(static_cast<int>(type->label_bottom)));
      if (found != current.end()) paths.push_back({i, classes, found->second.source, found->second.steps});
    }
    const auto from = passes_on ? current.find(layer.bottom(0)) : current.end();
    const LabelPath bottom = from == current.end() ? LabelPath() : from->second;
    for (int top = 0; top < layer.top_size(); ++top) {
      if (types.IsSource(layer)) {
        current[layer.top(top)].source = {i, top};
      } else if (from == current.end()) {
        current.erase(layer.top(top));
      } else {
        LabelPath& path = current[layer.top(top)] = bottom;
        path.steps.emplace_back(i, top);
      }
    }
  }
  return paths;
}

StatusOr<std::vector<int64_t>> ElementsOf(const LabelPath& path, const caffe::NetParameter& net, const Shape& row,
                                          const LayerTypes& types) {
  std::vector<int64_t> dims = {1}, elements(row.count());
  dims.insert(dims.end(), row.dims().begin(), row.dims().end());
  std::iota(elements.begin(), elements.end(), 0);
  Shape shape(std::move(dims));
  for (const auto& [layer, top] : path.steps) {
    HP_ASSIGN_OR_RETURN(const LayerTraits traits, LayerTraits::Create(net.layer(layer), types));
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, traits.OutputShapes({shape}));
    std::vector<int64_t> taken = traits.Elements(shape, top);
    for (int64_t& element : taken) element = elements[element];
    elements = std::move(taken);
    shape = out[top];
  }
  return elements;
}

}  // namespace hp

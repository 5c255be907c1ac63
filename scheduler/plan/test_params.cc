#include "scheduler/plan/test_params.h"

#include "proto/finite.h"
#include "proto/place.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace hp {
namespace {

/// By layer and blob.
using ParamShapes = std::map<std::pair<std::string, int>, Shape>;

ParamShapes ShapesOfParams(const NetGraph& graph, const std::vector<Shape>& shapes) {
  ParamShapes params;
  for (const GraphLayer& layer : graph.layers()) {
    if (layer.source) continue;
    std::vector<Shape> in;
    for (int bottom : layer.bottoms) in.push_back(shapes[bottom]);
    int blob = layer.first_blob();
    for (const ParamSpec& spec : layer.Params(in)) params.emplace(std::pair(layer.traits.name(), blob++), spec.shape);
  }
  return params;
}

/// By name; 0 for a layer without parameters.
std::map<std::string, int> BlobCounts(const NetGraph& graph, const ParamShapes& params) {
  std::map<std::string, int> counts;
  for (const GraphLayer& layer : graph.layers()) {
    if (!layer.source && !layer.of_no_layer()) counts[layer.traits.name()] = 0;
  }
  for (const auto& [key, shape] : params) ++counts[key.first];
  return counts;
}

Status OfNoTraining(const std::string& layer, Phase test) {
  return InvalidArgument(
      "layer \"%s\": has parameters in phase %s alone, where nothing trains them; expected a layer of this name in "
      "phase TRAIN, or none",
      layer.c_str(), test.name().c_str());
}

/// The layers that have parameters of their own, in their order.
std::vector<std::string> LayersWithParams(const NetGraph& graph) {
  std::vector<std::string> layers;
  for (const GraphLayer& layer : graph.layers()) {
    if (!layer.source && !layer.of_no_layer() && layer.blobs() > 0) layers.push_back(layer.traits.name());
  }
  return layers;
}

}  // namespace

Status CheckPhases(const std::shared_ptr<const caffe::NetParameter>& net, int tests, const LayerTypes& types) {
  for (const caffe::LayerParameter& layer : net->layer()) {
    if (const std::string field = NonFiniteField(layer); !field.empty()) {
      return AtLayer(InvalidArgument("layer \"%s\": %s; expected a finite number", layer.name().c_str(), field.c_str()),
                     layer);
    }
  }
  std::vector<std::string> trained;
  for (const Phase phase : PhasesWith(tests)) {
    HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net, phase, types));
    const std::vector<std::string> layers = LayersWithParams(*graph);
    if (phase.train()) trained = layers;
    for (const std::string& layer : layers) {
      if (std::find(trained.begin(), trained.end(), layer) != trained.end()) continue;
      return AtLayer(OfNoTraining(layer, phase), *net, phase);
    }
  }
  return OkStatus();
}

Status CheckTestParams(const NetGraph& train, const std::vector<Shape>& train_shapes, const NetGraph& test,
                       const std::vector<Shape>& test_shapes) {
  const std::string phase = test.phase().name();
  const ParamShapes trained = ShapesOfParams(train, train_shapes), tested = ShapesOfParams(test, test_shapes);
  const std::map<std::string, int> trained_counts = BlobCounts(train, trained);
  for (const auto& [layer, count] : BlobCounts(test, tested)) {
    const auto found = trained_counts.find(layer);
    if (found == trained_counts.end() || found->second == count) continue;
    return InvalidArgument("layer \"%s\": has %d blob(s) in phase %s and %d in phase TRAIN; expected equal numbers",
                           layer.c_str(), count, phase.c_str(), found->second);
  }
  for (const auto& [key, shape] : tested) {
    const auto found = trained.find(key);
    if (found == trained.end()) return OfNoTraining(key.first, test.phase());
    if (found->second == shape) continue;
    return InvalidArgument("layer \"%s\": blob %d has the shape [%s] in phase %s; in phase TRAIN it has [%s]",
                           key.first.c_str(), key.second, shape.ToString().c_str(), phase.c_str(),
                           found->second.ToString().c_str());
  }
  return OkStatus();
}

}  // namespace hp

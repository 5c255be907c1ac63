#include "proto/layer_names.h"

#include "proto/net_filter.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace hp {

std::string DistinctName(const std::string& name, const std::function<bool(const std::string&)>& is_taken) {
  std::string own = name;
  for (int n = 2; is_taken(own); ++n) own = name + "#" + std::to_string(n);
  return own;
}

void NameLayersApart(caffe::NetParameter* net) {
  std::vector<std::set<caffe::Phase>> phases(net->layer_size());
  for (caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    for (int i : LayersOf(*net, phase)) phases[i].insert(phase);
  }
  std::map<caffe::Phase, std::set<std::string>> taken;
  for (int i = 0; i < net->layer_size(); ++i) {
    const bool named = !net->layer(i).name().empty();
    const std::string name = named ? net->layer(i).name() : net->layer(i).type();
    const auto is_taken = [&](const std::string& candidate) {
      for (caffe::Phase phase : phases[i]) {
        if (taken[phase].contains(candidate)) return true;
      }
      return false;
    };
    const std::string own = DistinctName(name, is_taken);
    for (caffe::Phase phase : phases[i]) taken[phase].insert(own);
    if (own != net->layer(i).name()) net->mutable_layer(i)->set_name(own);
  }
}

std::vector<std::string> GivenNames(const caffe::NetParameter& net) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  const auto is_taken = [&taken](const std::string& name) { return taken.contains(name); };
  for (const caffe::LayerParameter& layer : net.layer()) {
    const std::string given = layer.name().substr(0, layer.name().rfind('#'));
    names.push_back(DistinctName(given, is_taken) == layer.name() ? given : layer.name());
    taken.insert(layer.name());
  }
  return names;
}

}  // namespace hp

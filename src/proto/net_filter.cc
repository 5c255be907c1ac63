#include "proto/net_filter.h"

#include <algorithm>

namespace hp {
namespace {

bool Meets(const caffe::NetState& state, const caffe::NetStateRule& rule) {
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  const auto has_stage = [&state](const std::string& name) {
    return std::find(state.stage().begin(), state.stage().end(), name) != state.stage().end();
  };
  return std::all_of(rule.stage().begin(), rule.stage().end(), has_stage) &&
         std::none_of(rule.not_stage().begin(), rule.not_stage().end(), has_stage);
}

}  // namespace

bool LayerIsIn(const caffe::LayerParameter& layer, const caffe::NetState& state) {
  const auto meets = [&state](const caffe::NetStateRule& rule) { return Meets(state, rule); };
  if (layer.include_size() > 0) return std::any_of(layer.include().begin(), layer.include().end(), meets);
  return std::none_of(layer.exclude().begin(), layer.exclude().end(), meets);
}

bool IncludedInPhase(const caffe::LayerParameter& layer, caffe::Phase phase) {
  caffe::NetState state;
  state.set_phase(phase);
  return LayerIsIn(layer, state);
}

caffe::NetState StateOf(const caffe::NetParameter& net, caffe::Phase phase) {
  caffe::NetState state = net.state();
  state.set_phase(phase);
  return state;
}

caffe::NetState StateOfTest(const caffe::NetParameter& net, int index) {
  caffe::NetState state = StateOf(net, caffe::TEST);
  if (index > 0) state.add_stage(StageOfTest(index));
  return state;
}

std::string StageOfTest(int index) { return "hpnode-test-" + std::to_string(index); }

std::vector<int> LayersOf(const caffe::NetParameter& net, caffe::Phase phase) {
  const caffe::NetState state = StateOf(net, phase);
  std::vector<int> layers;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (LayerIsIn(net.layer(i), state)) layers.push_back(i);
  }
  return layers;
}

caffe::NetParameter FilterNet(const caffe::NetParameter& net, caffe::Phase phase) {
  caffe::NetParameter filtered = net;
  filtered.clear_layer();
  *filtered.mutable_state() = StateOf(net, phase);
  for (int i : LayersOf(net, phase)) *filtered.add_layer() = net.layer(i);
  return filtered;
}

}  // namespace hp

#include "proto/net_filter.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>

namespace hp {
namespace {

constexpr std::string_view kTestStagePrefix = "hpnode-test-";

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

/// 0: it is the stage of no further test.
int TestOfStage(std::string_view stage) {
  if (!stage.starts_with(kTestStagePrefix)) return 0;
  stage.remove_prefix(kTestStagePrefix.size());
  int test = 0;
  const auto [end, error] = std::from_chars(stage.data(), stage.data() + stage.size(), test);
  const bool whole = error == std::errc() && end == stage.data() + stage.size();
  return whole && test < std::numeric_limits<int>::max() ? test : 0;
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

caffe::NetState StateOf(const caffe::NetParameter& net, Phase phase) {
  caffe::NetState state = net.state();
  state.set_phase(phase.kind());
  if (!phase.train() && phase.test() > 0) state.add_stage(StageOfTest(phase.test()));
  return state;
}

std::string StageOfTest(int index) { return std::string(kTestStagePrefix) + std::to_string(index); }

std::vector<int> LayersOf(const caffe::NetParameter& net, Phase phase) {
  const caffe::NetState state = StateOf(net, phase);
  std::vector<int> layers;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (LayerIsIn(net.layer(i), state)) layers.push_back(i);
  }
  return layers;
}

caffe::NetParameter FilterNet(const caffe::NetParameter& net, Phase phase) {
  caffe::NetParameter filtered = net;
  filtered.clear_layer();
  *filtered.mutable_state() = StateOf(net, phase);
  for (int i : LayersOf(net, phase)) *filtered.add_layer() = net.layer(i);
  return filtered;
}

std::vector<Phase> DistinctPhases(const caffe::NetParameter& net) {
  std::set<Phase> phases = {caffe::TRAIN, caffe::TEST};
  const auto add = [&phases](const std::string& stage) {
    if (const int test = TestOfStage(stage); test > 0) phases.insert(Phase::OfTest(test));
  };
  for (const caffe::LayerParameter& layer : net.layer()) {
    for (const auto* rules : {&layer.include(), &layer.exclude()}) {
      for (const caffe::NetStateRule& rule : *rules) {
        for (const std::string& stage : rule.stage()) add(stage);
        for (const std::string& stage : rule.not_stage()) add(stage);
      }
    }
  }
  return {phases.begin(), phases.end()};
}

}  // namespace hp

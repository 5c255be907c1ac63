// Assigns layers to stages. First each stage claims the layers that it names; sources that none names are the first
// stage's, wherever they stand; and then each claims those of its range that nobody has so far. The first stage to
// claim a layer keeps it, and what several stages claim or none does is reported as ranges of layers, not layer by
// layer.
#include "base/format.h"
#include "layers/traits/layer_types.h"
#include "proto/names.h"
#include "scheduler/plan/table_check.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>

namespace hp {
namespace {

std::string Quoted(const std::string& name) { return "\"" + name + "\""; }

/// Layers [begin, end) of the net, for a message.
std::string LayerRange(const caffe::NetParameter& net, int begin, int end) {
  if (end - begin == 1) return "layer " + Quoted(net.layer(begin).name());
  return "layers " + Quoted(net.layer(begin).name()) + " to " + Quoted(net.layer(end - 1).name());
}

/// Assigns the layers of one net to the stages of one table.
class Assignment {
 public:
  Assignment(const RoutingTableConfig& config, const caffe::NetParameter& net, std::vector<std::string>* faults)
      : config_(config), net_(net), faults_(faults) {}

  std::vector<int> Run() {
    std::vector<int> stage_of_layer(net_.layer_size(), -1);
    if (!FindRanges()) return stage_of_layer;
    for (int stage = 0; stage < config_.stage_size(); ++stage) ClaimNamed(stage, &stage_of_layer);
    for (int i = 0; i < net_.layer_size() && config_.stage_size() > 0; ++i) {
      if (stage_of_layer[i] < 0 && LayerTypes::BuiltIn().IsSource(net_.layer(i))) stage_of_layer[i] = 0;
    }
    named_ = stage_of_layer;
    for (int stage = 0; stage < config_.stage_size(); ++stage) ClaimRange(stage, &stage_of_layer);
    ReportGaps(stage_of_layer);
    return stage_of_layer;
  }

 private:
  struct LayerSpan {
    int first, last;
  };

  bool FindRanges() {
    bool known = true;
    for (int stage = 0; stage < config_.stage_size(); ++stage) {
      const StageConfig& entry = config_.stage(stage);
      const bool ranged = entry.kind() != StageConfig::PS &&
                          (entry.layer().empty() || !entry.from_layer().empty() || !entry.to_layer().empty());
      LayerSpan span{0, ranged ? net_.layer_size() - 1 : -1};
      if (!entry.from_layer().empty()) span.first = Find(stage, "from_layer", entry.from_layer(), false);
      if (!entry.to_layer().empty()) span.last = Find(stage, "to_layer", entry.to_layer(), true);
      known = known && span.first >= 0 && (span.last >= 0 || !ranged);
      if (ranged && span.first >= 0 && span.last >= 0 && span.first > span.last) {
        Add(Format("%s ends at layer %s, before it begins at layer %s", Label(stage).c_str(),
                   Quoted(entry.to_layer()).c_str(), Quoted(entry.from_layer()).c_str()));
        known = false;
      }
      spans_.push_back(span);
    }
    return known;
  }

  /// The first or the last layer of this name; -1, and a fault, if there is none.
  int Find(int stage, const char* field, const std::string& name, bool last) {
    int found = -1;
    for (int i = 0; i < net_.layer_size(); ++i) {
      if (net_.layer(i).name() == name && (last || found < 0)) found = i;
    }
    if (found < 0) AddUnknown(stage, field, name);
    return found;
  }

  void AddUnknown(int stage, const char* field, const std::string& name) {
    std::vector<std::string> names;
    for (const caffe::LayerParameter& layer : net_.layer()) names.push_back(layer.name());
    const std::string nearest = NearestName(name, names);
    Add(Format("%s: %s %s is not a layer of the net%s", Label(stage).c_str(), field, Quoted(name).c_str(),
               nearest.empty() ? "" : (" (did you mean " + Quoted(nearest) + "?)").c_str()));
  }

  void ClaimNamed(int stage, std::vector<int>* stage_of_layer) {
    for (const std::string& pattern : config_.stage(stage).layer()) {
      bool found = false;
      for (int i = 0; i < net_.layer_size(); ++i) {
        const std::string& name = net_.layer(i).name();
        if (name != pattern && fnmatch(pattern.c_str(), name.c_str(), 0) != 0) continue;
        found = true;
        int& owner = (*stage_of_layer)[i];
        if (owner >= 0 && owner != stage) {
          Add(Format("%s and %s both name layer %s", Label(owner).c_str(), Label(stage).c_str(), Quoted(name).c_str()));
        }
        if (owner < 0) owner = stage;
      }
      if (!found) AddUnknown(stage, "layer", pattern);
    }
  }

  void ClaimRange(int stage, std::vector<int>* stage_of_layer) {
    const LayerSpan span = spans_[stage];
    std::map<int, LayerSpan> shared;  // by the stage that had them before
    for (int i = span.first; i <= span.last; ++i) {
      if (named_[i] >= 0) continue;
      int& owner = (*stage_of_layer)[i];
      if (owner < 0) {
        owner = stage;
      } else {
        shared.try_emplace(owner, LayerSpan{i, i}).first->second.last = i;
      }
    }
    for (const auto& [owner, both] : shared) {
      Add(Format("%s and %s both have %s", Label(owner).c_str(), Label(stage).c_str(),
                 LayerRange(net_, both.first, both.last + 1).c_str()));
    }
  }

  void ReportGaps(const std::vector<int>& stage_of_layer) {
    for (int begin = 0; begin < net_.layer_size();) {
      int end = begin;
      while (end < net_.layer_size() && stage_of_layer[end] < 0) ++end;
      if (end > begin) Add(LayerRange(net_, begin, end) + " of the net: not in any stage");
      begin = end + 1;
    }
  }

  std::string Label(int stage) const { return "stage " + Quoted(StageName(config_, stage)); }
  void Add(std::string fault) { faults_->push_back(std::move(fault)); }

  const RoutingTableConfig& config_;
  const caffe::NetParameter& net_;
  std::vector<std::string>* faults_;
  std::vector<LayerSpan> spans_;  // by stage; of one without a range it ends before it begins
  std::vector<int> named_;        // by layer: the stage that has it whatever the ranges; -1: none
};

}  // namespace

std::vector<int> AssignLayers(const RoutingTableConfig& config, const caffe::NetParameter& net,
                              std::vector<std::string>* faults) {
  return Assignment(config, net, faults).Run();
}

}  // namespace hp

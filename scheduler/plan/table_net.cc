// Checks of the table beside the net and the solver. They read the prototxt as it is, by the types' facts (LayerTypes),
// without making a graph of it: a table with faults is to be described even where no plan can be made.
#include "base/format.h"
#include "proto/names.h"
#include "proto/net_filter.h"
#include "scheduler/plan/msg_id.h"
#include "scheduler/plan/net_facts.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hp {
namespace {

/// Collects what does not fit between a table and a net.
class NetFit {
 public:
  NetFit(const RoutingTableConfig& config, const caffe::NetParameter& net, const LayerTypes& types)
      : config_(config), net_(net), types_(types) {
    parts_.resize(config.stage_size());
    for (const NodeConfig& node : config.node()) {
      for (const StagePart& part : PartsOf(node)) {
        if (part.stage >= 0 && part.stage < config.stage_size()) ++parts_[part.stage];
      }
    }
  }

  std::vector<std::string> Run() {
    stage_of_layer_ = AssignLayers(config_, net_, &faults_);
    const bool assigned = faults_.empty();
    CheckSplits(assigned);
    CheckBatch();
    for (const Phase phase : DistinctPhases(net_)) {
      const std::vector<int> layers = LayersOf(net_, phase);
      if (!assigned) continue;
      CheckSources(layers);
      for (int stage = 0; stage < config_.stage_size(); ++stage) CheckShards(stage, layers, phase);
    }
    return std::move(faults_);
  }

 private:
  /// Most faults show in all phases; they are said once.
  void Add(const std::string& fault) {
    if (std::find(faults_.begin(), faults_.end(), fault) == faults_.end()) faults_.push_back(fault);
  }

  std::string Stage(int stage) const { return "stage \"" + StageName(config_, stage) + "\""; }
  std::string Layer(int layer) const {
    return "layer \"" + net_.layer(layer).name() + "\" (" + net_.layer(layer).type() + ")";
  }

  void CheckSplits(bool assigned) {
    for (const SplitConfig& split : config_.split()) {
      const std::string& name = split.layer();
      std::vector<std::string> names;
      int found = -1;
      for (int i = 0; i < net_.layer_size(); ++i) {
        names.push_back(net_.layer(i).name());
        if (names.back() == name) found = i;
      }
      if (name.empty()) continue;  // a fault of its own
      if (found < 0) {
        const std::string nearest = NearestName(name, names);
        Add(Format("split: \"%s\" is not a layer of the net%s", name.c_str(),
                   nearest.empty() ? "" : (" (did you mean \"" + nearest + "\"?)").c_str()));
      } else if (!types_.SplitOutputs(net_.layer(found))) {
        Add(Format("split: %s can't be split; expected an InnerProduct layer", Layer(found).c_str()));
      } else if (split.by() == SplitConfig::INPUTS && !types_.SplitsInputs(net_.layer(found))) {
        Add(Format("split: %s can't be split by INPUTS; expected OUTPUTS or NONE", Layer(found).c_str()));
      } else if (assigned && config_.stage(stage_of_layer_[found]).kind() == StageConfig::CONV) {
        Add(Format("split: %s is in %s, whose nodes are replicas; expected a layer of an FC stage",
                   Layer(found).c_str(), Stage(stage_of_layer_[found]).c_str()));
      }
    }
  }

  void CheckBatch() {
    const BatchSize batch = BatchSizeOf(net_, caffe::TRAIN, types_);
    // The net is not for training, or this is a fault of its own, which the check of its layers says with the line.
    if (batch.samples < 1 || batch.samples > Shape::kMaxDim) return;
    const bool global = config_.batch() == RoutingTableConfig::GLOBAL;
    const int64_t replicas = global ? parts_[0] : 1;
    CheckShares(batch);
    if (replicas * config_.micro_batches() <= batch.samples) return;
    Add(Format(
        "%lld replica(s) x %d micro-batches are more than the %lld samples of a batch (batch_size of layer \"%s\"); "
        "expected at least one sample in each micro-batch",
        static_cast<long long>(replicas), config_.micro_batches(), static_cast<long long>(batch.samples),
        batch.layer.c_str()));
  }

  /// A small share must be a sample for each micro-batch all the same.
  void CheckShares(const BatchSize& batch) {
    int64_t all = 0;
    const NodeConfig* least = nullptr;
    for (const NodeConfig& node : config_.node()) {
      const std::vector<StagePart> parts = PartsOf(node);
      if (std::none_of(parts.begin(), parts.end(), [](const StagePart& part) { return part.stage == 0; })) continue;
      all += node.share();
      if (least == nullptr || node.share() < least->share()) least = &node;
    }
    if (least == nullptr || all == parts_[0] * int64_t{least->share()}) return;  // all alike
    if (batch.samples * least->share() >= all * config_.micro_batches()) return;
    Add(Format(
        "node \"%s\" has a share of %d in %lld of the %lld samples of a batch (batch_size of layer \"%s\"): too few "
        "for %d micro-batches; expected a larger share, or fewer micro-batches",
        least->name().c_str(), least->share(), static_cast<long long>(all), static_cast<long long>(batch.samples),
        batch.layer.c_str(), config_.micro_batches()));
  }

  void CheckSources(const std::vector<int>& layers) {
    for (int i : layers) {
      if (stage_of_layer_[i] == 0 || !types_.IsSource(net_.layer(i))) continue;
      Add(Format("%s produces input data in %s; expected it in the first stage, %s", Layer(i).c_str(),
                 Stage(stage_of_layer_[i]).c_str(), Stage(0).c_str()));
    }
  }

  void CheckShards(int stage, const std::vector<int>& layers, Phase phase) {
    const int shards = config_.stage(stage).kind() == StageConfig::FC ? parts_[stage] : 1;
    int members = 0, products = 0;
    for (int i : layers) {
      if (stage_of_layer_[i] != stage || types_.Discards(net_.layer(i))) continue;
      ++members;
      const caffe::LayerParameter& layer = net_.layer(i);
      if (types_.SplitOutputs(layer)) {
        ++products;
      } else if (shards > 1 && types_.HasParameters(layer) && !types_.HasSmallBlobs(layer)) {
        Add(Format("%s can't be split over the %d shards of %s; expected it in a conv stage or one shard",
                   Layer(i).c_str(), shards, Stage(stage).c_str()));
      }
    }
    if (!phase.train() || config_.stage(stage).kind() == StageConfig::PS) return;
    if (members == 0) {
      Add(Format("%s has no layer in phase TRAIN", Stage(stage).c_str()));
    } else if (products == 0 && shards > 1) {
      Add(Format("%s has %d shards but no InnerProduct layer to split; expected one node", Stage(stage).c_str(),
                 shards));
    }
  }

  const RoutingTableConfig& config_;
  const caffe::NetParameter& net_;
  const LayerTypes& types_;
  std::vector<int> parts_;  // nodes of each stage
  std::vector<int> stage_of_layer_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> CheckNetFit(const RoutingTableConfig& config, const caffe::NetParameter& net,
                                     const LayerTypes& types) {
  return NetFit(config, net, types).Run();
}

std::vector<std::string> CheckSolverFit(const RoutingTableConfig& config, const caffe::SolverParameter& solver) {
  std::vector<std::string> faults;
  const auto check = [&](const char* field, int64_t batches, const char* what) {
    const int64_t ids = batches * config.micro_batches();
    if (ids <= MsgId::kMaxMicroBatches) return;
    faults.push_back(
        Format("micro_batches: %d times %s: %lld are %lld micro-batches of a replica in %s; expected at "
               "most %lld, the limit of micro-batch ids",
               config.micro_batches(), field, static_cast<long long>(batches), static_cast<long long>(ids), what,
               static_cast<long long>(MsgId::kMaxMicroBatches)));
  };
  check("iter_size", solver.iter_size(), "an update");
  check("test_iter", std::accumulate(solver.test_iter().begin(), solver.test_iter().end(), int64_t{0}), "a test");
  return faults;
}

std::vector<std::string> CheckTable(const RoutingTableConfig& config, const caffe::NetParameter& net,
                                    const HostResolver& resolve, const LayerTypes& types) {
  std::vector<std::string> faults = CheckStructure(config);
  const auto add = [&faults](const std::vector<std::string>& more) {
    faults.insert(faults.end(), more.begin(), more.end());
  };
  if (resolve) add(CheckHosts(config, resolve));
  if (config.stage_size() > 0) add(CheckNetFit(config, net, types));
  return faults;
}

}  // namespace hp

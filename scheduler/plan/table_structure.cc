// Checks of what stands in the table alone. Each topic is checked by itself and adds its faults; checks of indices are
// left out where a node names no valid stage, since their faults would only follow from that one.
#include "base/cores.h"
#include "base/format.h"
#include "base/host.h"
#include "scheduler/plan/loss_scaler.h"
#include "scheduler/plan/msg_id.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace hp {
namespace {

constexpr int kMaxTimeoutS = 2'000'000;  // timers count milliseconds in an int
constexpr int kMaxParts = 16;            // of a node
constexpr int kMaxShare = 10000;
constexpr double kMaxLinkGbitPerS = 1e6;
constexpr int64_t kMaxTurns = 65536;  // a node knows which of its parts each of them passes

/// Collects the faults of one table, topic by topic.
class StructureCheck {
 public:
  explicit StructureCheck(const RoutingTableConfig& config) : config_(config) {}

  std::vector<std::string> Run() {
    CheckJob();
    CheckLossScaling();
    CheckWire();
    CheckStaleness();
    CheckStages();
    CheckServers();
    CheckSplits();
    if (config_.node_size() == 0) Add("the table has no node; expected at least one \"node { ... }\"");
    for (int rank = 0; rank < config_.node_size(); ++rank) CheckNode(rank);
    CheckLinks();
    CheckNodeNames();
    CheckAddresses();
    for (std::string& fault : CheckDevices(config_)) Add(std::move(fault));
    if (stages_known_) {
      for (int stage = 0; stage < config_.stage_size(); ++stage) CheckIndices(stage);
      CheckReplicas();
      CheckServedNodes();
      if (faults_.empty()) CheckPartsMeet();
    }
    return std::move(faults_);
  }

 private:
  void Add(std::string fault) { faults_.push_back(std::move(fault)); }

  void CheckJob() {
    if (config_.solver().empty()) Add("the table names no solver; expected solver: \"...\"");
    if (config_.job().empty()) Add("the job has an empty name; expected job: \"...\" or no job field");
    if (config_.micro_batches() < 1 || config_.micro_batches() > MsgId::kMaxMicroBatches) {
      Add(Format("micro_batches is %d; expected 1 to %lld", config_.micro_batches(),
                 static_cast<long long>(MsgId::kMaxMicroBatches)));
    }
    const int timeout_s = config_.transport().connect_timeout_s();
    if (timeout_s < 1 || timeout_s > kMaxTimeoutS) {
      Add(Format("connect_timeout_s is %d; expected 1 to %d", timeout_s, kMaxTimeoutS));
    }
    CheckCopies();
    CheckEncryption();
  }

  void CheckCopies() {
    const int copies = config_.snapshot_copies();
    if (copies < 1 || copies > 2) return Add(Format("snapshot_copies is %d; expected 1 or 2", copies));
    if (copies == 1 || config_.node().empty()) return;
    const std::string& first = config_.node(0).host();
    const auto elsewhere = [&first](const NodeConfig& node) { return node.host() != first; };
    if (std::none_of(config_.node().begin(), config_.node().end(), elsewhere)) {
      Add(Format("snapshot_copies is 2, but all nodes are on host \"%s\"; expected a node on another one",
                 first.c_str()));
    }
  }

  void CheckEncryption() {
    const TransportConfig& transport = config_.transport();
    if (transport.tls() && transport.kind() == TransportConfig::VERBS &&
        transport.clear() != TransportConfig::ALLOWED) {
      Add("transport has kind: VERBS and tls: true, but RDMA encrypts nothing; expected kind: TCP or AUTO, or clear: "
          "ALLOWED");
    }
    if (!transport.tls() && transport.has_clear()) {
      Add("transport has clear without tls; expected tls: true, or no clear field");
    }
  }

  void CheckLossScaling() {
    const LossScaling& scaling = config_.loss_scaling();
    if (config_.has_loss_scaling() && config_.precision() != RoutingTableConfig::FP16) {
      Add(Format("loss_scaling is set with precision: %s; expected precision: FP16, or no loss_scaling",
                 RoutingTableConfig::Precision_Name(config_.precision()).c_str()));
    }
    if (!LossScaler::IsScale(scaling.initial())) {
      Add(Format("loss_scaling has initial: %.17g; expected a power of two from 1 to 2^100", scaling.initial()));
    }
    if (scaling.growth_interval() < 0) {
      Add(Format("loss_scaling has growth_interval: %d; expected 0 (it never grows) or more",
                 scaling.growth_interval()));
    }
  }

  void CheckWire() {
    const RoutingTableConfig::Precision wire = config_.wire_precision();
    if (wire == RoutingTableConfig::FP32 || wire == RoutingTableConfig::BF16) return;
    Add(Format("wire_precision is %s; expected FP32 or BF16", RoutingTableConfig::Precision_Name(wire).c_str()));
  }

  void CheckStaleness() {
    const int staleness = config_.staleness();
    if (staleness < 0 || staleness > kMaxStaleness) {
      Add(Format("staleness is %d; expected 0 to %d", staleness, kMaxStaleness));
    }
    if (staleness <= 0) return;
    if (config_.precision() == RoutingTableConfig::FP16) {
      Add(
          Format("staleness is %d with precision: FP16, whose loss scale follows from the update before; expected "
                 "staleness: 0",
                 staleness));
    }
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      if (config_.node(rank).device() == "cpu") continue;
      Add(Format("%s computes on %s with staleness %d; expected device \"cpu\"", NodeLabel(config_, rank).c_str(),
                 config_.node(rank).device().c_str(), staleness));
    }
  }

  void CheckStages() {
    if (config_.stage_size() == 0) Add("the table has no stage; expected at least one \"stage { kind: CONV }\"");
    std::map<std::string, int> first;
    for (int i = 0; i < config_.stage_size(); ++i) {
      const StageConfig& stage = config_.stage(i);
      const std::string label = StageLabel(config_, i);
      if (!stage.has_kind()) {
        Add(label + " has no kind; expected kind: " + (i == 0 ? "CONV" : "CONV, FC or PS"));
      } else if (i == 0 && stage.kind() != StageConfig::CONV) {
        Add(label + ", the first, is " + StageConfig::Kind_Name(stage.kind()) +
            "; expected CONV: data enters in a data-parallel stage");
      }
      if (stage.kind() != StageConfig::FC && stage.boundary() == StageConfig::SCATTERED) {
        Add(label + " is " + StageConfig::Kind_Name(stage.kind()) +
            " and has boundary: SCATTERED; expected it of an FC stage, whose shards gather the slices");
      }
      if (stage.kind() != StageConfig::CONV && stage.has_exchange()) {
        Add(label + " is " + StageConfig::Kind_Name(stage.kind()) +
            " and has exchange: " + StageConfig::Exchange_Name(stage.exchange()) +
            "; expected it of a conv stage, whose replicas agree on "
            "parameters");
      }
      if (stage.kind() != StageConfig::PS && stage.has_serves()) {
        Add(label + " is " + StageConfig::Kind_Name(stage.kind()) + " and serves a stage; expected it of a PS stage");
      }
      if (!stage.name().empty() && !first.emplace(stage.name(), i).second) {
        Add(Format("stages %d and %d are both named \"%s\"", first[stage.name()], i, stage.name().c_str()));
      }
    }
  }

  /// A conv stage and its servers name each other: one by its exchange, the others by `serves`.
  void CheckServers() {
    std::map<int, int> server_of;  // by conv stage
    for (int i = 0; i < config_.stage_size(); ++i) {
      const StageConfig& stage = config_.stage(i);
      if (stage.kind() != StageConfig::PS) continue;
      const std::string label = StageLabel(config_, i);
      const int served = stage.serves().empty() ? -1 : FindStage(config_, stage.serves());
      if (stage.layer_size() > 0 || !stage.from_layer().empty() || !stage.to_layer().empty()) {
        Add(label + " is PS and has layers; expected none");
      }
      if (served < 0) {
        Add(label + " is PS and serves " +
            (stage.serves().empty() ? "no stage" : "\"" + stage.serves() + "\", which is not a stage") +
            "; expected serves: \"...\", the name of a conv stage with exchange: PARAMETER_SERVER");
      } else if (config_.stage(served).kind() != StageConfig::CONV ||
                 config_.stage(served).exchange() != StageConfig::PARAMETER_SERVER) {
        Add(label + " serves " + StageLabel(config_, served) +
            "; expected a conv stage with exchange: PARAMETER_SERVER");
      } else if (const auto [entry, fresh] = server_of.emplace(served, i); !fresh) {
        Add(StageLabel(config_, entry->second) + " and " + label + " both serve " + StageLabel(config_, served) +
            "; expected one PS stage for a conv stage");
      }
    }
    for (int i = 0; i < config_.stage_size(); ++i) {
      const StageConfig& stage = config_.stage(i);
      if (stage.kind() != StageConfig::CONV || stage.exchange() != StageConfig::PARAMETER_SERVER) continue;
      if (server_of.contains(i)) continue;
      Add(StageLabel(config_, i) +
          " has exchange: PARAMETER_SERVER and no servers; expected a stage { kind: PS "
          "serves: \"" +
          (stage.name().empty() ? "..." : stage.name()) + "\" }");
    }
  }

  /// Servers are processes of their own, on CPUs, and so are those that they serve.
  void CheckServedNodes() {
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      const NodeConfig& node = config_.node(rank);
      for (const StagePart& part : PartsOf(node)) {
        const StageConfig& stage = config_.stage(part.stage);
        const bool server = stage.kind() == StageConfig::PS;
        if (server && node.part_size() > 0) {
          Add(Format("%s is a parameter server (%s) and has other parts; expected a node of its own",
                     NodeLabel(config_, rank).c_str(), StageLabel(config_, part.stage).c_str()));
          break;
        }
        if (!server && stage.exchange() != StageConfig::PARAMETER_SERVER) continue;
        if (node.device() == "cpu") continue;
        Add(Format("%s computes on %s in %s, whose gradients go by parameter servers; expected device \"cpu\"",
                   NodeLabel(config_, rank).c_str(), node.device().c_str(), StageLabel(config_, part.stage).c_str()));
      }
    }
  }

  void CheckSplits() {
    std::map<std::string, int> first;
    for (int i = 0; i < config_.split_size(); ++i) {
      const std::string& layer = config_.split(i).layer();
      if (layer.empty()) {
        Add(Format("split %d names no layer; expected layer: \"...\"", i));
      } else if (!first.emplace(layer, i).second) {
        Add(Format("splits %d and %d are both of layer \"%s\"", first[layer], i, layer.c_str()));
      }
    }
  }

  void CheckNode(int rank) {
    const NodeConfig& node = config_.node(rank);
    const std::string label = NodeLabel(config_, rank);
    if (node.name().empty()) Add(label + " has no name; expected name: \"...\"");
    if (!node.has_stage()) {
      Add(label + " has no stage; expected stage: N");
      stages_known_ = false;
    }
    CheckParts(label, node);
    if (node.host().empty()) Add(label + " has no host; expected host: \"...\"");
    if (!node.has_port()) {
      Add(label + " has no port; expected port: N");
    } else if (node.port() < 1 || node.port() > 65535) {
      Add(Format("%s has port %d; expected 1 to 65535", label.c_str(), node.port()));
    }
    CheckShare(label, node);
    CheckRange(label, "pool_size", node.pool_size(), kMaxPoolSize);
    CheckRange(label, "threads", node.threads(), kMaxThreads);
    CheckRange(label, "memory_mb", node.memory_mb(), kMaxMemoryMb);
    if (!(node.link_gbit_per_s() >= 0 && node.link_gbit_per_s() <= kMaxLinkGbitPerS)) {
      Add(Format("%s has link_gbit_per_s %g; expected 0 to %g", label.c_str(), node.link_gbit_per_s(),
                 kMaxLinkGbitPerS));
    }
    if (!IsDeviceName(node.device())) {
      Add(Format("%s computes on \"%s\"; expected \"cpu\", \"cuda\" or \"cuda:N\"", label.c_str(),
                 node.device().c_str()));
    }
  }

  void CheckLinks() {
    std::map<std::string, int> first;  // by host: the first node that says what its link carries
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      const NodeConfig& node = config_.node(rank);
      if (!(node.link_gbit_per_s() > 0)) continue;
      const int other = first.emplace(node.host(), rank).first->second;
      const double said = config_.node(other).link_gbit_per_s();
      if (node.link_gbit_per_s() == said) continue;
      Add(Format("%s and %s, both on host \"%s\", have link_gbit_per_s %g and %g; expected one number for a host",
                 NodeLabel(config_, other).c_str(), NodeLabel(config_, rank).c_str(), node.host().c_str(), said,
                 node.link_gbit_per_s()));
    }
  }

  void CheckShare(const std::string& label, const NodeConfig& node) {
    if (!node.has_share()) return;
    const std::vector<StagePart> parts = PartsOf(node);
    if (node.share() < 1 || node.share() > kMaxShare) {
      Add(Format("%s has share %d; expected 1 to %d", label.c_str(), node.share(), kMaxShare));
    } else if (std::none_of(parts.begin(), parts.end(), [](const StagePart& part) { return part.stage == 0; })) {
      Add(Format("%s has a share of the batch, but is not in %s, whose nodes read it", label.c_str(),
                 StageLabel(config_, 0).c_str()));
    } else if (node.share() != 1 && config_.batch() == RoutingTableConfig::PER_REPLICA) {
      Add(Format(
          "%s has share %d with batch: PER_REPLICA, where all have the same; expected no share, or batch: GLOBAL",
          label.c_str(), node.share()));
    }
  }

  void CheckParts(const std::string& label, const NodeConfig& node) {
    std::set<int> stages;
    for (const StagePart& part : PartsOf(node)) {
      if (part.stage < 0 || part.stage >= config_.stage_size()) {
        Add(Format("%s is in stage %d; expected 0 to %d", label.c_str(), part.stage, config_.stage_size() - 1));
        stages_known_ = false;
      } else if (!stages.insert(part.stage).second) {
        Add(Format("%s has two parts of %s; expected parts of different stages", label.c_str(),
                   StageLabel(config_, part.stage).c_str()));
      }
      if (part.index < 0) {
        Add(Format("%s has index %d; expected 0 or more", label.c_str(), part.index));
        stages_known_ = false;
      }
    }
    if (node.part_size() >= kMaxParts) {
      Add(Format("%s has %d parts; expected at most %d", label.c_str(), node.part_size() + 1, kMaxParts));
    }
  }

  void CheckRange(const std::string& label, const char* field, int64_t value, int64_t most) {
    if (value >= 0 && value <= most) return;
    Add(Format("%s has %s %lld; expected 0 to %lld", label.c_str(), field, static_cast<long long>(value),
               static_cast<long long>(most)));
  }

  void CheckNodeNames() {
    std::map<std::string, int> first;
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      const std::string& name = config_.node(rank).name();
      if (name.empty() || first.emplace(name, rank).second) continue;
      Add(Format("nodes %d and %d are both named \"%s\"", first[name], rank, name.c_str()));
    }
  }

  void CheckAddresses() {
    std::map<std::pair<std::string, int>, int> first;
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      const NodeConfig& node = config_.node(rank);
      if (node.host().empty() || !node.has_port()) continue;
      const auto [entry, fresh] = first.emplace(std::pair(node.host(), node.port()), rank);
      if (fresh) continue;
      Add(Format("%s and %s are both on %s; expected a port of its own for each",
                 NodeLabel(config_, entry->second).c_str(), NodeLabel(config_, rank).c_str(),
                 HostPort(node.host(), node.port()).c_str()));
    }
  }

  /// Every index from 0 to the largest, each exactly once.
  void CheckIndices(int stage) {
    const StageConfig::Kind kind = config_.stage(stage).kind();
    const char* part = kind == StageConfig::FC ? "shard" : kind == StageConfig::PS ? "server" : "replica";
    const std::string label = StageLabel(config_, stage);
    std::map<int, int> holder;
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      for (const StagePart& own : PartsOf(config_.node(rank))) {
        if (own.stage != stage) continue;
        const auto [entry, fresh] = holder.emplace(own.index, rank);
        if (fresh) continue;
        Add(Format("%s: %s and %s are both %s %d", label.c_str(), NodeLabel(config_, entry->second).c_str(),
                   NodeLabel(config_, rank).c_str(), part, entry->first));
      }
    }
    if (holder.empty()) {
      Add(Format("%s has no node; expected at least %s 0", label.c_str(), part));
      return;
    }
    const int nodes = static_cast<int>(holder.size());
    int missing = 0;
    for (const auto& [index, rank] : holder) {
      if (index != missing) {
        Add(Format("%s: %s %d has no node, although %s is %s %d", label.c_str(), part, missing,
                   NodeLabel(config_, rank).c_str(), part, index));
        break;
      }
      ++missing;
    }
    if (config_.stage(stage).kind() == StageConfig::CONV && nodes > MsgId::kMaxReplicas) {
      Add(Format("%s has %d replicas; expected at most %lld", label.c_str(), nodes,
                 static_cast<long long>(MsgId::kMaxReplicas)));
    }
  }

  /// Each micro-batch has one replica in each conv stage, and each replica some of them.
  void CheckReplicas() {
    const std::vector<int> nodes = NodesByStage();
    for (int stage = 1; stage < config_.stage_size(); ++stage) {
      if (config_.stage(stage).kind() != StageConfig::CONV || nodes[0] == 0 || nodes[stage] == 0) continue;
      if (nodes[stage] > int64_t{nodes[0]} * config_.micro_batches()) {
        Add(Format("%s has %d replicas for %lld micro-batches (of %d replicas, %d each); expected at most as many",
                   StageLabel(config_, stage).c_str(), nodes[stage],
                   static_cast<long long>(int64_t{nodes[0]} * config_.micro_batches()), nodes[0],
                   config_.micro_batches()));
      }
      if (nodes[0] % nodes[stage] == 0 || nodes[stage] % nodes[0] == 0) continue;
      Add(Format("%s has %d replicas and %s %d; expected one number to divide the other",
                 StageLabel(config_, stage).c_str(), nodes[stage], StageLabel(config_, 0).c_str(), nodes[0]));
    }
  }

  std::vector<int> NodesByStage() const {
    std::vector<int> nodes(config_.stage_size(), 0);
    for (const NodeConfig& node : config_.node()) {
      for (const StagePart& part : PartsOf(node)) ++nodes[part.stage];
    }
    return nodes;
  }

  /// Some micro-batch must pass all parts of a node: what it passes of them then lies in one net.
  void CheckPartsMeet() {
    const std::vector<int> nodes = NodesByStage();
    for (int rank = 0; rank < config_.node_size(); ++rank) {
      int64_t turn = 0, turns = 1;  // micro-batch turn + n * turns passes all parts so far
      for (const StagePart& part : PartsOf(config_.node(rank))) {
        if (config_.stage(part.stage).kind() != StageConfig::CONV) continue;
        const int replicas = nodes[part.stage];
        const int64_t all = std::lcm(turns, int64_t{replicas});
        while (turn < all && turn % replicas != part.index) turn += turns;
        if (turn >= all) {
          Add(
              Format("%s is replica %d of the %d of %s, whose micro-batches do not pass its other parts; expected a "
                     "replica that takes some of the same",
                     NodeLabel(config_, rank).c_str(), part.index, replicas, StageLabel(config_, part.stage).c_str()));
          break;
        }
        if ((turns = all) <= kMaxTurns) continue;
        Add(Format("%s has parts that meet once in %lld micro-batches; expected at most %lld",
                   NodeLabel(config_, rank).c_str(), static_cast<long long>(turns), static_cast<long long>(kMaxTurns)));
        break;
      }
    }
  }

  const RoutingTableConfig& config_;
  std::vector<std::string> faults_;
  bool stages_known_ = true;
};

}  // namespace

std::string NodeLabel(const RoutingTableConfig& config, int rank) {
  const std::string& name = config.node(rank).name();
  return name.empty() ? Format("node %d", rank) : Format("node \"%s\"", name.c_str());
}

std::string StageLabel(const RoutingTableConfig& config, int stage) {
  const std::string& name = config.stage(stage).name();
  return name.empty() ? Format("stage %d", stage) : Format("stage \"%s\"", name.c_str());
}

std::string StageName(const RoutingTableConfig& config, int stage) {
  const std::string& name = config.stage(stage).name();
  return name.empty() ? Format("stage %d", stage) : name;
}

int FindStage(const RoutingTableConfig& config, const std::string& name) {
  const auto& stages = config.stage();
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const StageConfig& s) { return s.name() == name; });
  return found == stages.end() ? -1 : static_cast<int>(found - stages.begin());
}

std::vector<StagePart> PartsOf(const NodeConfig& node) {
  std::vector<StagePart> parts = {{node.stage(), node.index()}};
  for (const PartConfig& part : node.part()) parts.push_back({part.stage(), part.index()});
  return parts;
}

std::vector<std::string> CheckStructure(const RoutingTableConfig& config) { return StructureCheck(config).Run(); }

}  // namespace hp

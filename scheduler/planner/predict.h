#pragma once

#include "scheduler/planner/divided_net.h"
#include "scheduler/planner/hosts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace hp {

/// The samples of a job, by net and solver.
struct Workload {
  int64_t batch = 1;         ///< samples of a batch: of all replicas together, or of each (per_replica)
  int64_t iter_size = 1;     ///< batches of an update
  int histories = 1;         ///< that the solver keeps of each parameter
  bool per_replica = false;  ///< RoutingTableConfig::PER_REPLICA

  double samples(int replicas) const { return static_cast<double>(batch * iter_size) * (per_replica ? replicas : 1); }
};

/// Hosts that are alike and have the same number of nodes of each kind.
struct HostGroup {
  int place = 0;        ///< one that stands for all: index into Hosts::places
  int hosts = 1;        ///< how many there are
  int replicas = 0;     ///< of each host
  int shards = 0;       ///< of each host
  bool beside = false;  ///< its shards lie on the nodes of its replicas, not on nodes of their own
  double rows = 0;      ///< of a batch, of each replica
  int first = 0;        ///< a place of one of the hosts, to name it
  int servers = 0;      ///< of each host: parameter servers of all replicas
};

/// What one host of a group does in an iteration.
struct HostLoad {
  double replica_s = 0;    ///< seconds that one replica computes, with the shard on its node
  double shard_s = 0;      ///< seconds that one shard computes
  double server_s = 0;     ///< seconds that one parameter server adds gradients up and updates
  double out = 0, in = 0;  ///< bytes over the host's link
  double exchanged = 0;    ///< those of them, each way, that are gradients of replicas and their new values
  double memory = 0;       ///< bytes of all its nodes
  double node_memory = 0;  ///< bytes of its largest node

  double compute_s() const { return std::max({replica_s, shard_s, server_s}); }
};

/// What a table will do, as far as the model sees.
struct Prediction {
  enum Resource { kCompute, kSend, kReceive };

  double seconds = 0;            ///< of an iteration
  double samples = 0;            ///< of an iteration
  double limit = 0;              ///< seconds that the busiest node computes, or the busiest link sends or receives
  Resource resource = kCompute;  ///< which of them
  int busiest = 0;               ///< and of which group
  double exchange_s = 0;         ///< what the exchange of gradients takes beyond the last backward pass
  std::vector<HostLoad> loads;   ///< by group
  double missing = 0;            ///< bytes that the host with the least room lacks; 0: all fits
  int short_of_memory = 0;       ///< its group
  double depth = 1e9;            ///< rounds of micro-batches that the pools let be under way at once

  double samples_per_second() const { return samples / seconds; }
};

/// Predicts iterations of divisions of one net on some hosts by closed formulas (scheduler/README.md, "Planner").
/// Remembers the times of nodes that it has seen. Not for several threads at once.
class Predictor {
 public:
  /// @param hosts must outlive it. @param work likewise.
  Predictor(const Hosts& hosts, const Workload& work) : hosts_(&hosts), work_(work) {}

  /// Gives the replicas of `groups` their rows of a batch, so that all are done at the same time: in proportion to
  /// their speed, less where a node has a shard as well.
  /// @return false: some replica has fewer samples than micro-batches.
  bool ShareRows(const DividedNet& net, int micro_batches, std::vector<HostGroup>* groups);
  /// @param groups with all replicas and shards of net.division(), by ShareRows.
  Prediction Predict(const DividedNet& net, int micro_batches, const std::vector<HostGroup>& groups);

 private:
  /// Seconds of one micro-batch.
  struct Times {
    double forward = 0, backward = 0, weights = 0;  ///< weights: of a shard's gradients that are added at once
  };
  /// A node of a division on a kind of place.
  struct NodeModel {
    const NodePlan* plan = nullptr;
    std::unique_ptr<LayerTimes> layers;
    std::unique_ptr<NodeTimes> node;
    double update = 0;  ///< seconds, with deferred gradients
    std::map<int64_t, Times> by_rows;
  };

  NodeModel& ModelOf(const DividedNet& net, bool shard, int place);
  const Times& TimesOfWhole(const DividedNet& net, bool shard, int place, int64_t rows);
  Times TimesOf(const DividedNet& net, bool shard, int place, double rows);
  double ShardSeconds(const DividedNet& net, int micro_batches, int place, const std::vector<HostGroup>& groups);
  void AddLinks(const DividedNet& net, const std::vector<HostGroup>& groups, Prediction* prediction) const;
  void AddMemory(const DividedNet& net, int micro_batches, const std::vector<HostGroup>& groups,
                 Prediction* prediction) const;
  double ExchangeSeconds(const DividedNet& net, const std::vector<HostGroup>& groups) const;

  const HostInfo& HostOf(const HostGroup& group) const { return hosts_->hosts[hosts_->places[group.place].host]; }

  const Hosts* hosts_;
  const Workload work_;
  std::map<std::pair<const NodePlan*, int>, NodeModel> models_;  // by plan and place
};

}  // namespace hp

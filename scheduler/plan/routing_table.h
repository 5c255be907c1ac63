#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "net/plan/placement.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// A stage of the table: consecutive layers placed together.
struct StageInfo {
  std::string name;
  bool conv = false;         ///< data-parallel: its nodes are replicas; else they are shards
  bool all_on_gpus = false;  ///< every node of it computes on one
  std::vector<Rank> ranks;   ///< by replica or shard

  int size() const { return static_cast<int>(ranks.size()); }
  const char* role() const { return conv ? "conv" : "fc"; }
};

/// A node of the table.
struct NodeInfo {
  Rank rank = 0;
  std::string name;
  std::vector<StagePart> parts;  ///< what it runs, in the order of stages
  std::string role;              ///< "conv" or "fc"
  std::string host;
  int port = 0;
  int pool_size = 0;         ///< 0: chosen from the table
  int threads = 0;           ///< 0: the host's cores shared among its nodes
  int64_t memory_bytes = 0;  ///< 0: no limit
  std::string device;        ///< "cpu" or "cuda:N"

  std::string address() const { return host + ":" + std::to_string(port); }
};

/// Who runs what and who talks to whom, checked: every stage has its nodes, every index exactly one, every node an
/// address of its own. What needs the net to be known is checked by CheckTable. Immutable; any thread.
class RoutingTable {
 public:
  /// Reads and checks a table file.
  /// @return kInvalidArgument with every structural fault, or the first fault of the text with its line.
  static StatusOr<RoutingTable> Load(const std::string& path);
  /// The same for a table that is in memory; `path` is what relative paths and messages refer to.
  static StatusOr<RoutingTable> Create(const RoutingTableConfig& config, const std::string& path);

  const RoutingTableConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  const std::string& job() const { return config_.job(); }
  /// As it can be opened: a relative path is taken beside the table.
  const std::string& solver_path() const { return solver_path_; }

  const std::vector<NodeInfo>& nodes() const { return nodes_; }  ///< by rank
  const NodeInfo& node(Rank rank) const { return nodes_.at(rank); }
  int size() const { return static_cast<int>(nodes_.size()); }
  const std::vector<StageInfo>& stages() const { return stages_; }
  const StageInfo& stage(int index) const { return stages_.at(index); }

  int replicas() const { return stages_.front().size(); }
  int shards(int stage) const { return stages_.at(stage).size(); }
  Rank rank_of(int stage, int index) const { return stages_.at(stage).ranks.at(index); }
  /// @return kNotFound listing the names there are.
  StatusOr<Rank> FindNode(const std::string& name) const;

  int micro_batches() const { return config_.micro_batches(); }
  bool scales_loss() const { return config_.precision() == RoutingTableConfig::FP16; }
  /// The global batch for a prototxt's batch_size: with PER_REPLICA the product with the replicas.
  int64_t GlobalBatch(int64_t batch_size) const;
  /// Of all that decides bits and addresses; `solver` is left out, since the solver's own hash stands in.
  uint64_t hash() const { return hash_; }
  /// Of what decides the order of all sums, but for the nodes' threads: stages, who has which part of them, division of
  /// the batch, exchange. Names, addresses, pools and limits of nodes and of the job may change between two runs of it.
  uint64_t division_hash() const { return division_hash_; }

  /// The stage of each layer, by index in the unfiltered net.
  /// @return kInvalidArgument with every fault if the stages do not cover the net in order (see CheckStages).
  StatusOr<std::vector<int>> StageOfLayers(const caffe::NetParameter& net) const;

 private:
  RoutingTable() = default;

  RoutingTableConfig config_;
  std::string path_, solver_path_;
  std::vector<NodeInfo> nodes_;
  std::vector<StageInfo> stages_;
  uint64_t hash_ = 0, division_hash_ = 0;
};

}  // namespace hp

#pragma once

#include "base/host.h"
#include "base/rank.h"
#include "hp/status.h"
#include "net/plan/placement.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// In what type CPUs, if they can, have the factors of products with a table's `precision`, and in what type tensors
/// cross with its `wire_precision`.
inline ElementType ElementOf(RoutingTableConfig::Precision precision) {
  return precision == RoutingTableConfig::BF16 ? ElementType::kBFloat16 : ElementType::kFloat32;
}

/// A stage of the table: a set of layers placed together.
struct StageInfo {
  std::string name;         ///< as written; "stage N" if it has none
  bool conv = false;        ///< data-parallel: its nodes are replicas. Stage 0 is. Else they are shards or servers
  bool server = false;      ///< its nodes are parameter servers of stage `served`, and run no layer
  int served = -1;          ///< of a server stage: the conv stage; of a conv stage: its server stage. -1: none
  bool scattered = false;   ///< what other stages send comes in slices, which the shards gather
  bool by_nccl = false;     ///< NCCL sums its gradients: its replicas are all on GPUs, may speak in clear, and sum for
                            ///< no other stage
  std::vector<Rank> ranks;  ///< by replica or shard
  /// By replica or shard: which of the stage's hosts it is on, as their `host` is written, in the order of each one's
  /// first.
  std::vector<int> host_of;
  int hosts = 0;  ///< of the stage

  int size() const { return static_cast<int>(ranks.size()); }
  /// Whether replicas of a host add their gradients before one of them sends the sum over the network.
  bool sums_within_hosts() const { return conv && served < 0 && !by_nccl && hosts > 1 && hosts < size(); }
  const char* role() const { return conv ? "conv" : server ? "ps" : "fc"; }
};

/// A node of the table.
struct NodeInfo {
  Rank rank = 0;                 ///< its position in the table
  std::string name;              ///< unique in the table
  std::vector<StagePart> parts;  ///< what it runs: replicas and shards of different stages, at least one
  std::string role;              ///< "conv", "fc" or "ps": that of the first of them
  std::string host;              ///< name or address, as written, that others dial
  std::string listen;            ///< name or address that the node listens on; empty: `host`
  int port = 0;                  ///< TCP, 1 to 65535
  int pool_size = 0;             ///< solvers; 0: JobPlan chooses
  int threads = 0;               ///< of the executor; 0: its share of its host's cores (JobHandshake::ThreadsOf)
  int share = 1;                 ///< of a batch, of a node that reads samples
  int64_t memory_bytes = 0;      ///< most that the node may allocate for training; 0: no limit
  double link_gbit_per_s = 0;    ///< of its host's network link; 0: this entry does not say
  std::string device;            ///< "cpu", "cuda:N", or kOwnGpu: what the node's scheduler gives it

  /// Which replica or shard of a stage it is; -1: none.
  int IndexIn(int stage) const;
  std::string address() const { return HostPort(host, port); }
};

/// The routing table of a job in checked form: which node runs which part of which stage, and at which address. It has
/// passed CheckStructure: every index of every stage belongs to exactly one node, and no two nodes share an address as
/// written. Whether it fits the net is not checked here; see CheckTable. A value: copy it. Immutable; any thread.
class RoutingTable {
 public:
  /// Reads and checks a table file.
  /// @return kNotFound: no such file; kInvalidArgument: the first fault of the text with its line, or else every
  /// structural fault.
  static StatusOr<RoutingTable> Load(const std::string& path);
  /// Checks a table that is in memory. @param path stands in messages; a relative `solver` is looked up beside it.
  /// @return kInvalidArgument with every structural fault.
  static StatusOr<RoutingTable> Create(const RoutingTableConfig& written, const std::string& path);

  /// The table as written.
  const RoutingTableConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  const std::string& job() const { return config_.job(); }
  /// The solver file as it can be opened: a relative path is taken beside the table.
  const std::string& solver_path() const { return solver_path_; }

  const std::vector<NodeInfo>& nodes() const { return nodes_; }  ///< by rank
  const NodeInfo& node(Rank rank) const { return nodes_.at(rank); }
  /// Nodes of the job: ranks are 0 to size() - 1.
  int size() const { return static_cast<int>(nodes_.size()); }
  const std::vector<StageInfo>& stages() const { return stages_; }  ///< at least one; the first reads samples
  const StageInfo& stage(int index) const { return stages_.at(index); }

  /// Nodes of the first stage, which read the samples.
  int replicas() const { return stages_.front().size(); }
  /// Their shares of a batch, by replica; empty: all alike.
  std::vector<int> shares() const;
  /// Nodes of stage `stage`, whether replicas or shards.
  int shards(int stage) const { return stages_.at(stage).size(); }
  /// The nodes of the stage whose gradients NCCL sums on this node; empty: it does so for none.
  std::vector<Rank> ReplicasByNccl(Rank rank) const;
  /// The node that is replica or shard `index` of a stage.
  Rank rank_of(int stage, int index) const { return stages_.at(stage).ranks.at(index); }
  /// @return kNotFound: no node has this name; the message lists the names of the table.
  StatusOr<Rank> FindNode(const std::string& name) const;

  /// Micro-batches that a replica's share of one batch is cut into, at least 1.
  int micro_batches() const { return config_.micro_batches(); }
  /// Updates by which an iteration's parameters may lag behind; 0: synchronous.
  int staleness() const { return config_.staleness(); }
  /// The node that writes a copy of each snapshot, on another host than the first one; -1: none.
  Rank snapshot_copier() const { return snapshot_copier_; }
  /// The nodes that write snapshots: the first one and its copier.
  std::vector<Rank> snapshot_writers() const;
  /// How the job computes, for a status: "FP32", "TF32, BF16 on the wire". @param products what they are computed in.
  std::string DescribePrecision(RoutingTableConfig::Precision products) const;
  /// Whether a node times the engines of its convolutions, and keeps which are the fastest.
  bool times_engines(Rank rank) const {
    return config_.convolution_engines() == RoutingTableConfig::TIMED && node(rank).device != "cpu";
  }
  /// Whether the GPUs of the nodes that read samples decode JPEGs.
  bool decodes_on_gpus() const { return config_.jpeg_decoder() == RoutingTableConfig::GPU; }
  /// As what activations and their gradients cross between nodes.
  ElementType wire() const { return ElementOf(config_.wire_precision()); }
  /// Whether the job has a LossScaler.
  bool scales_loss() const { return config_.precision() == RoutingTableConfig::FP16; }
  /// Samples of a batch of training, given the batch_size of the prototxt: multiplied by the replicas with PER_REPLICA.
  int64_t TrainingBatch(int64_t batch_size) const;
  /// Hash of the table but for `solver`, whose content the handshake compares by its own hash. Nodes whose tables have
  /// different hashes refuse each other.
  uint64_t hash() const { return hash_; }
  /// Hash of what decides the order of all sums, and so the bits, except the nodes' threads: stages, which node has
  /// which part and kind of device, what sums gradients, division of the batch, precision, how engines of convolutions
  /// are chosen, who decodes JPEGs. Between a snapshot and the run that resumes it, names, addresses, pool sizes and
  /// limits may change without changing this hash.
  uint64_t division_hash() const { return division_hash_; }
  /// Whether tensors may cross the network unencrypted: over RDMA, or by NCCL.
  bool may_send_clear() const {
    return !config_.transport().tls() || config_.transport().clear() == TransportConfig::ALLOWED;
  }

  /// The stage of each layer, by index among the layers of the unfiltered net (see AssignLayers).
  /// @return kInvalidArgument with every fault if the stages do not cover the net without overlap.
  StatusOr<std::vector<int>> StageOfLayers(const caffe::NetParameter& net) const;
  /// How each layer is divided over the shards of its stage, likewise by index; matters only where there are several.
  std::vector<LayerSplit> SplitOfLayers(const caffe::NetParameter& net) const;

 private:
  RoutingTable() = default;

  RoutingTableConfig config_;
  std::string path_, solver_path_;
  std::vector<NodeInfo> nodes_;
  std::vector<StageInfo> stages_;
  uint64_t hash_ = 0, division_hash_ = 0;
  Rank snapshot_copier_ = -1;
};

}  // namespace hp

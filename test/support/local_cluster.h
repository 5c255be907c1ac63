#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "layers/op_factories.h"
#include "layers/traits/layer_types.h"
#include "proto/routing.pb.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/plan/routing_table.h"

#include "devices/devices.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hp::test {

/// A folder that is removed with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void WriteFile(const std::string& path, const std::string& text);

/// Writes a LevelDB of `records` random [channels, size, size] images with labels in [0, classes): class means with
/// noise, so that something can be learnt. A function of `seed`.
void WriteRandomImages(const std::string& path, int records, int channels, int size, int classes, uint64_t seed);

/// A stage as a table has it (StageConfig in text form), and how many nodes it has.
struct ClusterStage {
  std::string config;
  int parts = 1;
  std::vector<Rank> on = {};  ///< nodes of earlier stages that have its first parts, instead of nodes of their own
};

/// How a job is laid out.
struct ClusterSpec {
  std::vector<ClusterStage> stages = {};  ///< instead of the next four, which are for stages one behind the other
  int conv = 1;
  std::vector<int> fc;                                 ///< shards of each FC stage
  std::vector<std::string> fc_starts;                  ///< first layer of each FC stage
  std::vector<std::string> ends;                       ///< last layer of each stage but the last
  std::map<std::string, SplitConfig::By> splits = {};  ///< of layers that are not split by outputs
  bool scattered = false;                              ///< FC stages get slices of what comes in
  std::map<int, int> ps = {};                          ///< by conv stage: its parameter servers, behind all other nodes
  std::vector<int> shares = {};                        ///< of a batch, by replica that reads; empty: all alike
  int staleness = 0;
  int micro_batches = 1;
  int pool_size = 0;  ///< 0: default
  int threads = 1;
  int reader_threads = 1;
  bool tcp = false;
  uint64_t delay_seed = 0;  ///< not 0: random delays on links (inproc) and before tasks
  int delay_us = 1500;      ///< the longest of them
  std::string resume, weights;
  std::string device = "cpu";                            ///< of every node, in the table
  std::function<std::string(Rank rank)> device_of = {};  ///< of each node instead
  std::vector<std::string> hosts = {};                   ///< of nodes in turn, not over TCP; empty: all here
  TransportConfig::DeviceCopies device_copies = TransportConfig::ON;
  std::optional<size_t> least_host_copy = {};  ///< NodeOptions, if not the default; over TCP alone
  /// Opens what a node computes on; null: what the table says.
  std::function<StatusOr<NodeDevice>(Rank rank)> open_device;
  /// Likewise, in a table with convolution_engines: TIMED. @param engines null: a node on processors.
  std::function<StatusOr<NodeDevice>(Rank rank, EngineChoices* engines)> open_timed_device = {};
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32, wire_precision = RoutingTableConfig::FP32;
  RoutingTableConfig::JpegDecoder jpeg_decoder = RoutingTableConfig::HOST;
  std::optional<LossScaling> loss_scaling;
  const LayerTypes* layer_types = &LayerTypes::BuiltIn();
  const OpFactories* op_factories = &OpFactories::BuiltIn();
  std::function<void(Rank rank, const Task& task)> before_task;  ///< executor's thread, before each task
  std::function<void(int64_t clock)> on_loss;                    ///< called when the loss of an iteration is known
};

/// What came out.
struct ClusterResult {
  Status status;
  std::map<std::string, std::vector<float>> params;  ///< whole blobs, put together from all nodes
  std::map<int64_t, double> losses;                  ///< by iteration
};

/// The routing table of `spec` with nodes on 127.0.0.1; ports are filled in for TCP only.
RoutingTableConfig MakeTable(const ClusterSpec& spec, const std::string& solver_path);

/// Runs all nodes of a job as threads of this process and collects their parameters. Those that several nodes have,
/// statistics of BatchNorm among them, must be the same to the bit: else the test fails.
ClusterResult TrainCluster(const ClusterSpec& spec, const std::string& solver_path);

/// The largest difference of two blobs, relative to the largest magnitude of the second.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace hp::test

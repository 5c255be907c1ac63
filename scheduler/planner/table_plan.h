#pragma once

#include "scheduler/plan/table_maker.h"
#include "scheduler/planner/ordered_hosts.h"
#include "scheduler/planner/predict.h"

#include <memory>
#include <optional>
#include <vector>

namespace hp {

/// What a plan is made for.
struct PlanProblem {
  std::shared_ptr<const caffe::NetParameter> net;  ///< the whole prototxt
  SampleShape sample;
  Hosts hosts;  ///< with their profiles (LoadProfiles)
  Workload work;
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32;       ///< for the table; work is as profiled
  RoutingTableConfig::Precision wire_precision = RoutingTableConfig::FP32;  ///< FP32 or BF16
};

/// A stage of a chain.
struct ChainStage {
  int first = 0;  ///< its first layer, by index among the layers of the unfiltered prototxt
  bool conv = true;
  int nodes = 1;
};

/// A table, by its numbers, and what it will do.
struct TablePlan {
  std::shared_ptr<const DividedNet> net = nullptr;  ///< null of a chain
  /// The stages of a table of more than a conv stage and an FC stage, in the order of the net, conv stages first; else
  /// empty. Each has nodes of its own, and `nodes` has all of one kind, stage by stage.
  std::vector<ChainStage> chain = {};
  bool beside = false;  ///< shard i lies on the node of replica i; those beyond have nodes of their own
  int micro_batches = 1;
  NodePlaces nodes = {};
  std::vector<int> shares = {};  ///< of the batch, by replica; empty: all alike
  std::vector<HostGroup> groups = {};
  Prediction prediction = {};
  std::optional<double> simulated_s = {};  ///< an iteration's seconds by a simulation; nothing: there was none

  /// Of an iteration, as well as they are known.
  double seconds() const { return simulated_s.value_or(prediction.seconds); }
  double samples_per_second() const { return prediction.samples / seconds(); }
  /// Of all stages.
  int replicas() const { return static_cast<int>(nodes.conv.size()); }
  int shards() const { return net ? net->division().shards : static_cast<int>(nodes.fc.size()); }
  int servers() const { return static_cast<int>(nodes.ps.size()); }
  /// Of each node of the table, by rank: index into Hosts::places.
  std::vector<int> places() const;
  /// Whether it is one process, and whether it is plain data parallelism.
  bool one_node() const { return chain.empty() && replicas() == 1 && shards() == 0; }
  bool data_parallel() const { return chain.empty() && replicas() > 1 && shards() == 0 && servers() == 0; }
};

/// What MakeTable needs to write the table of `plan`. The caller sets solver, port, job and tls.
TableRequest RequestOf(const PlanProblem& problem, const TablePlan& plan);

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// What a node of the table holds, and what it says and hears in one iteration.
struct NodeSummary {
  std::vector<std::string> layers;  ///< of the TRAIN phase, in their order
  int64_t parameters = 0;           ///< its own part of them
  int64_t parameter_bytes = 0;      ///< with their histories and gradients
  int solvers = 0;
  int64_t solver_bytes = 0;  ///< of one
  int64_t memory_bytes = 0;  ///< of everything that is taken at start
  /// Of activations, gradients and the conv replicas' exchange; labels and control messages are small.
  int64_t sent_bytes = 0, received_bytes = 0;
};

/// Summaries by rank. Opens the databases of the Data layers to learn the shape of a sample.
/// @return kNotFound: a database is not on this host; else what is wrong with net, table or data.
StatusOr<std::vector<NodeSummary>> Summarize(const RoutingTable& table, const caffe::SolverParameter& solver,
                                             const caffe::NetParameter& net, const std::string& cache_dir);

/// A few lines for each node.
std::string DescribeNodes(const RoutingTable& table, const std::vector<NodeSummary>& nodes);

}  // namespace hp

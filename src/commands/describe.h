#pragma once

#include "base/memory_room.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hp {

/// What a node of the table holds, and what it sends and receives in one iteration without a test.
struct NodeSummary {
  std::vector<std::string> layers;  ///< that it runs in the TRAIN phase, in the order of the net
  int64_t parameters = 0;           ///< elements of its own blocks of them
  int64_t parameter_bytes = 0;      ///< with their histories and gradients
  int solvers = 0;                  ///< size of its pool
  int64_t solver_bytes = 0;         ///< of one solver
  int64_t memory_bytes = 0;         ///< NodeMemory::bytes, as on a CPU
  /// Activations, their gradients and the conv replicas' allreduce (counted as a ring); labels and control messages are
  /// small and left out.
  int64_t sent_bytes = 0, received_bytes = 0;
};

/// Summaries by rank, for `hproute --check`. Every node is planned as if it computed on a CPU, so no GPU is needed.
/// @param room what the host of a node has for it; AddressSpaceRoom() where that is not known.
/// Opens the databases of the Data layers to learn the shape of a sample. Only built-in layer types.
/// @param net unfiltered. @param cache_dir DatasetOptions::cache_dir.
/// @return kNotFound: a database or mean file is not on this host; kInvalidArgument, kDataLoss: a fault of net, solver,
/// table (also too little memory_mb, or more than its `room`) or data.
StatusOr<std::vector<NodeSummary>> Summarize(const RoutingTable& table, const caffe::SolverParameter& solver,
                                             const caffe::NetParameter& net, const std::string& cache_dir,
                                             const std::function<MemoryRoom(const NodeInfo&)>& room);

/// Four lines for each node. @param nodes summaries of this table, by rank.
std::string DescribeNodes(const RoutingTable& table, const std::vector<NodeSummary>& nodes);

}  // namespace hp

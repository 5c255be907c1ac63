#pragma once

#include "base/memory_room.h"
#include "commands/sample_shape.h"
#include "hp/status.h"
#include "input/input.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/job_plan.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/plan/table_check.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

class Backend;

/// What a node of the table holds, and what it sends and receives in one iteration without a test.
struct NodeSummary {
  std::vector<std::string> layers;  ///< that it runs in the TRAIN phase, in the order of the net
  int64_t parameters = 0;           ///< elements of its own blocks of them
  int64_t parameter_bytes = 0;      ///< with their histories and gradients
  int solvers = 0;                  ///< size of its pool
  int64_t solver_bytes = 0;         ///< of one solver
  int64_t pool_for_lead = 0;        ///< JobPlan::PoolForLead; 0: the table has no staleness
  int64_t memory_bytes = 0;         ///< NodeMemory::bytes, as on a CPU
  int64_t host_bytes = 0;           ///< of its host's memory (NodeMemory::host_bytes)
  /// Activations, their gradients and the conv replicas' allreduce (NCCL's counted as a ring); labels and control
  /// messages are small and left out.
  int64_t sent_bytes = 0, received_bytes = 0;
};

/// The summary of one node, planned as if it computed on a CPU.
/// @param backend of the CPU. @param room what the node's host has for it.
/// @return kInvalidArgument: it does not fit into `room` or the table's memory_mb, or the backend can't make an op.
StatusOr<NodeSummary> SummarizeNode(const std::shared_ptr<const JobPlan>& job, Rank rank, Backend* backend,
                                    const MemoryRoom& room);

/// Whether nodes could build what solver and net say, as far as that shows without data: all numbers of the solver, and
/// each layer of the phases that it runs. Only built-in layer types.
/// @param net unfiltered. @return kInvalidArgument, with the file, and of a layer the line.
Status CheckBuildable(const std::string& solver_path, const caffe::SolverParameter& solver,
                      const std::shared_ptr<const caffe::NetParameter>& net);

/// Whether a table divides what solver and net say: its plan is made, of every phase that the solver runs, with the
/// shapes of all layers. Only built-in layer types.
/// @param net unfiltered. @param samples of each phase. @return kInvalidArgument, of a layer with the line.
StatusOr<std::shared_ptr<const JobPlan>> PlanJob(const RoutingTable& table, const caffe::SolverParameter& solver,
                                                 const std::shared_ptr<const caffe::NetParameter>& net,
                                                 SampleShapes samples);

/// Whether the nodes on this host's processors can compute with the table's precision. Of other hosts, and of GPUs, the
/// nodes know. @return as CheckPrecision.
Status CheckPrecisionHere(const JobPlan& job);

/// PlanJob of a table as it was read, with the checks of its solver and net that come before (CheckBuildable) and
/// behind (CheckPrecisionHere). Opens the databases of the Data layers to learn the shape of a sample, unless `sample`
/// says it (SampleShapesOf).
/// @param table must outlive the result. @param net unfiltered.
/// @return kNotFound: a database or mean file is not on this host; kInvalidArgument, kDataLoss: a fault of net, solver,
/// table or data.
StatusOr<std::shared_ptr<const JobPlan>> PlanTableJob(const RoutingTable& table, const caffe::SolverParameter& solver,
                                                      const caffe::NetParameter& net, const std::string& sample,
                                                      const InputOptions& inputs);

/// Summaries by rank, for `hproute --check`. Every node is planned as if it computed on a CPU, so no GPU is needed.
/// @param room what the host of a node has for its nodes; AddressSpaceRoom() where that is not known.
/// @param resolve which nodes share a host, and with it its room.
/// @return kInvalidArgument: too little memory_mb, a node or the nodes of a host that need more than its `room`, or
/// parameters that the solver's snapshots can't hold.
StatusOr<std::vector<NodeSummary>> Summarize(const std::shared_ptr<const JobPlan>& job,
                                             const std::function<MemoryRoom(const NodeInfo&)>& room,
                                             const HostResolver& resolve);

/// Four lines for each node. @param nodes summaries of this table, by rank.
std::string DescribeNodes(const RoutingTable& table, const std::vector<NodeSummary>& nodes);

}  // namespace hp

#pragma once

#include "base/memory_room.h"
#include "model/node_model.h"

#include <cstddef>
#include <string>
#include <vector>

namespace hp {

/// What a node's memory is made of, in bytes of its device, with a pool of `pool_size` solvers.
struct NodeMemory {
  int pool_size = 1;      ///< solvers
  int versions = 1;       ///< of the values: with staleness, one more
  size_t parameters = 0;  ///< values in all versions, gradients and histories
  size_t solver = 0;      ///< of one solver
  size_t matrices = 0;    ///< inputs of deferred gradients, of all rows of an update
  size_t scratch = 0;     ///< shared by all solvers
  size_t packed = 0;      ///< parameters in the layouts and element types that ops read, in all versions
  /// What only a device with memory of its own needs: copies of inputs that come from the host, whole images that it
  /// decodes, gradients of frozen parameters that ops write; 0 on the host.
  size_t device_only = 0;
  size_t nccl = 0;  ///< what NCCL is taken to need, where it sums gradients
  /// Images of one micro-batch, of training and of each test together: in the host's memory, `ring()` times.
  size_t images = 0;
  size_t exchange = 0;  ///< of replicas that sum gradients by a ring: in the host's memory

  /// Image buffers of a phase: those of bound micro-batches, and two that are read ahead.
  int ring() const { return pool_size + 2; }
  /// The whole, with each solver rounded up to pages; without the images. The largest number if it is beyond that.
  size_t bytes() const;
  /// Bytes of the images' buffers; likewise.
  size_t image_bytes() const;
  /// Bytes of the host's memory. @param on_host whether the node computes there: then all of it, else the images and
  /// what the exchange takes.
  size_t host_bytes(bool on_host) const;
  /// One line with the parts, for the log and for errors.
  std::string Describe() const;
};

/// Refuses what cannot fit before any op is made for it, which may take long and fail in a library's words: the node's
/// parameters and its largest tensor alone are compared with the table's memory_mb and with `host`. Main thread.
/// @param host what the node's host has, for nodes that compute on it; else AddressSpaceRoom().
/// @return kInvalidArgument with the figures, and the layer.
Status CheckPlannedMemory(const JobPlan& job, Rank rank, const MemoryRoom& host);

/// Decides the size of the node's pool, before any of the memory is allocated: the table's pool_size; where that is 0
/// the plan's, made smaller until all fits into the table's memory_mb, the device's free memory, and `host`. Nodes of
/// one host, each by itself, are compared with all that it has; CheckHostMemory adds them up. Snapshots' copies are not
/// counted, nor is what libraries keep. Main thread.
/// @param exchange bytes of the host's memory that its exchanges take.
/// @param host what the node's host has: of image buffers, and on the host's device of all.
/// @param decoder ImageExpander::DecoderBytes, where the device decodes images.
/// @return kInvalidArgument with the figures: the table's pool does not fit, or where that is 0 not even one solver.
StatusOr<NodeMemory> FitMemory(const NodeModel& model, size_t exchange, const MemoryRoom& host, size_t decoder = 0);

/// What a node needs of its host's memory.
struct HostShare {
  Rank rank = 0;
  size_t bytes = 0;
};

/// Whether the nodes of one host fit there together. @param shares of all of them, at least one.
/// @param room what the host has for them.
/// @return kInvalidArgument with the sum, each node's share, and what is missing.
Status CheckHostMemory(const RoutingTable& table, const std::vector<HostShare>& shares, const MemoryRoom& room);

/// CheckHostMemory of what CheckPlannedMemory looks at, which is less than the nodes will take: a node that starts
/// knows no more of others. Nodes on GPUs count nothing. @param ranks of one host's nodes. @param room of that host.
Status CheckPlannedHostMemory(const JobPlan& job, const std::vector<Rank>& ranks, const MemoryRoom& room);

/// Whether a test of `net`, whose ops are made, fits: `parameters` bytes, activations, and `ring` buffers of images.
/// @return kInvalidArgument with the figures.
Status CheckTestMemory(const NodeNet& net, size_t parameters, int ring, const MemoryRoom& host);

/// CheckPlannedMemory for a test of whole batches by one node, with Caffe's parameters but without gradients.
/// @param plan of a TEST phase. @param rows of a batch.
Status CheckPlannedTest(const NodePlan& plan, int64_t rows, const MemoryRoom& host);

}  // namespace hp

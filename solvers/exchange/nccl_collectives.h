#pragma once

#include "hp/status.h"
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <memory>
#include <string>

namespace hp {

struct NcclOptions {
  int rank = 0, size = 1;  ///< index of this replica, and number of replicas, of the stage
  std::string key_prefix;  ///< of its key in the rendezvous, so that several stages can share one
  void* stream = nullptr;  ///< the cudaStream_t of Device::kExchange
  int gpu = 0;             ///< CUDA's index of the stream's GPU
};

/// Makes NCCL connect the replicas in ConnectNccl rather than in the first AllReduce, which has to return at once: sets
/// NCCL_RUNTIME_CONNECT, whatever the user's value. Call before the process has threads that read the environment.
void PrepareNccl();

/// Connects NCCL's communicator of the stage. Blocks until all `size` replicas have called it, or the job has ended: a
/// replica that is lost behind its meeting place would else hang the others.
/// @param rendezvous carries the communicator's id from replica 0 to the others; used only until it returns.
/// @return kUnavailable: NCCL can't connect; kFailedPrecondition: nor by another try, as with two replicas on one GPU;
/// or the error of `rendezvous`.
StatusOr<std::unique_ptr<Collectives>> ConnectNccl(const NcclOptions& options, Rendezvous* rendezvous);

}  // namespace hp

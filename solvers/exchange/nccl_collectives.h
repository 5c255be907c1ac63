#pragma once

#include "hp/status.h"
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <memory>
#include <string>

namespace hp {

struct NcclOptions {
  int rank = 0, size = 1;  ///< among the replicas of the stage
  std::string key_prefix;  ///< of its key in the rendezvous
  void* stream = nullptr;  ///< the cudaStream_t of Device::kExchange
  int gpu = 0;             ///< which one it is on
};

/// Makes NCCL connect the replicas in ConnectNccl rather than in the first AllReduce, which has to return at once,
/// whatever NCCL_RUNTIME_CONNECT is. Before the process has threads that read the environment.
void PrepareNccl();

/// NCCL's communicator of the stage. Blocks until all `size` replicas have called it.
/// @return kUnavailable: it can't be made, or what `rendezvous` said.
StatusOr<std::unique_ptr<Collectives>> ConnectNccl(const NcclOptions& options, Rendezvous* rendezvous);

}  // namespace hp

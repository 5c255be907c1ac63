#pragma once

#include "hp/status.h"
#include "node/devices.h"
#include "scheduler/plan/routing_table.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <memory>

namespace hp {

/// Whose gradients are exchanged, and on what.
struct ExchangeOptions {
  const RoutingTable* table = nullptr;
  Rank rank = 0;                       ///< of the node
  StagePart part;                      ///< one of the node's parts: the stage, and which replica of it the node is
  const NodeDevice* device = nullptr;  ///< the node's; must outlive the exchange
  Rendezvous* rendezvous = nullptr;    ///< among the replicas of the stage; used in MakeNodeExchange only
  Exchange::Callbacks callbacks;       ///< both set
};

/// Makes the allreduce of one data-parallel stage, which must have several replicas (CHECK): by NCCL where all of them
/// compute on GPUs; else by Gloo over TCP, with gradients of a GPU copied through the host's memory. All replicas
/// decide alike. Blocks until all replicas have called it; main thread.
/// @return kUnavailable: connecting failed; kInvalidArgument: the node's host is no address of this host (Gloo); or
/// what `rendezvous` returned.
StatusOr<std::unique_ptr<Exchange>> MakeNodeExchange(const ExchangeOptions& options);

}  // namespace hp

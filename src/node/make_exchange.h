#pragma once

#include "hp/status.h"
#include "node/devices.h"
#include "scheduler/plan/routing_table.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <memory>

namespace hp {

struct ExchangeOptions {
  const RoutingTable* table = nullptr;
  Rank rank = 0;
  StagePart part;                      ///< of the node, in the stage whose gradients it is
  const NodeDevice* device = nullptr;  ///< outlives the exchange
  Rendezvous* rendezvous = nullptr;    ///< of the node's stage
  Exchange::Callbacks callbacks;
};

/// How the gradients of one of the node's parts meet those of the other replicas of its stage, of which there are some:
/// by the GPUs' own collectives where all of the stage compute on GPUs; else over TCP, through the host's memory.
/// Blocks until all replicas are here.
/// @return as ConnectGlooExchange and NodeDevice::connect.
StatusOr<std::unique_ptr<Exchange>> MakeNodeExchange(const ExchangeOptions& options);

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "node/devices.h"
#include "scheduler/plan/routing_table.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <functional>
#include <memory>

namespace hp {

struct ExchangeOptions {
  const RoutingTable* table = nullptr;
  Rank rank = 0;
  const NodeDevice* device = nullptr;  ///< outlives the exchange
  Rendezvous* rendezvous = nullptr;    ///< of the node's stage
  /// Called once, on a thread of the exchange, with the first failure of a collective. Must not block.
  std::function<void(const Status&)> on_failure;
};

/// How the node's gradients meet those of other replicas: not at all where it has none; by the GPUs' own collectives
/// where all of the stage compute on GPUs; else over TCP, through the host's memory. Blocks until all replicas are
/// here.
/// @return as ConnectGlooExchange and NodeDevice::connect.
StatusOr<std::unique_ptr<Exchange>> MakeNodeExchange(const ExchangeOptions& options);

}  // namespace hp

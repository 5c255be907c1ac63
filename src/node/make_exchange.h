#pragma once

#include "hp/status.h"
#include "node/devices.h"
#include "node/exchange_links.h"
#include "scheduler/plan/routing_table.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include <memory>
#include <vector>

namespace hp {

/// Whose gradients are exchanged, and on what.
struct ExchangeOptions {
  const RoutingTable* table = nullptr;
  Rank rank = 0;                       ///< of the node
  StagePart part;                      ///< one of the node's parts: the stage, and which replica of it the node is
  const NodeDevice* device = nullptr;  ///< the node's; must outlive the exchange
  Rendezvous* rendezvous = nullptr;    ///< among the replicas of the stage, for NCCL; used in MakeNodeExchange only
  /// Indices into `store`, which gives their sizes, in the order of Exchange::Add.
  std::vector<int> params;
  const ParamStore* store = nullptr;
  Transport* transport = nullptr;  ///< must outlive the exchange
  Exchange::Callbacks callbacks;   ///< both set
};

/// Makes the allreduce of one data-parallel stage, which must have several replicas (CHECK): by NCCL where the table
/// has it so (StageInfo::by_nccl); else by a ring over the node's connections, with gradients of a GPU copied through
/// the host's memory. All replicas decide alike. With NCCL it blocks until all replicas have called it. Main thread.
/// @param links set to those of the ring, which must outlive the exchange; null: NCCL needs none.
/// @return kUnavailable: NCCL can't connect, or what `rendezvous` returned; kFailedPrecondition: the transport can't
/// register memory.
StatusOr<std::unique_ptr<Exchange>> MakeNodeExchange(const ExchangeOptions& options,
                                                     std::unique_ptr<ExchangeLinks>* links);

}  // namespace hp

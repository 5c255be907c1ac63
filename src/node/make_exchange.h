#pragma once

#include "hp/status.h"
#include "model/node_model.h"
#include "node/exchange_links.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"
#include "transport/transport.h"

#include "devices/devices.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace hp {

/// Whose gradients are exchanged, and on what.
struct ExchangeOptions {
  const NodeModel* model = nullptr;    ///< of the node
  StagePart part;                      ///< one of the node's parts: the stage, and which replica of it the node is
  const NodeDevice* device = nullptr;  ///< the node's; must outlive the exchange
  Rendezvous* rendezvous = nullptr;    ///< among the replicas of the stage, for NCCL; used in MakeNodeExchange only
  std::vector<int> params;             ///< of ExchangedParamsOf
  Transport* transport = nullptr;      ///< must outlive the exchange
  Exchange::Callbacks callbacks;       ///< both set
};

/// Bytes of the host's memory that the exchanges of a node take by a ring: places, buckets, and copies of a GPU's
/// gradients. 0 by NCCL, and where nothing is exchanged.
size_t ExchangeHostBytes(const NodeModel& model);

/// Makes the allreduce of one data-parallel stage, which must have several replicas (CHECK): by NCCL where the table
/// has it so (StageInfo::by_nccl); else by a ring over the node's connections, with gradients of a GPU copied through
/// the host's memory. All replicas decide alike. With NCCL it blocks until all replicas have called it. Main thread.
/// @param links set to those of the ring, which must outlive the exchange; null: NCCL needs none.
/// @return kUnavailable: NCCL can't connect, or what `rendezvous` returned; kFailedPrecondition: the transport can't
/// register memory.
StatusOr<std::unique_ptr<Exchange>> MakeNodeExchange(const ExchangeOptions& options,
                                                     std::unique_ptr<ExchangeLinks>* links);

}  // namespace hp

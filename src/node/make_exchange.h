#pragma once

#include "hp/status.h"
#include "model/node_model.h"
#include "node/exchange_links.h"
#include "solvers/exchange/direct_plan.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/parameter_server.h"
#include "solvers/exchange/rendezvous.h"
#include "solvers/exchange/server_client.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include "devices/devices.h"

#include <cstddef>
#include <cstdint>
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

/// Bytes of the host's memory that the exchanges of a node take: among replicas places, buckets, and copies of a GPU's
/// gradients; on a parameter server the places of all replicas' gradients. 0 by NCCL, on the replicas of servers, and
/// where nothing is exchanged.
size_t ExchangeHostBytes(const NodeModel& model);

/// What a replica of a stage without servers sends and receives in one allreduce of all gradients, counted by its plan;
/// by NCCL as round a ring.
DirectPlan::Traffic SummedBytes(const NodeModel& model, const StagePart& part);

/// Makes the allreduce of one data-parallel stage, which must have several replicas (CHECK): by NCCL where the table
/// has it so (StageInfo::by_nccl); else over the node's connections, with gradients of a GPU copied through the host's
/// memory: by a ring; or along the trees of DirectPlan with wire_precision BF16, and where some of several hosts have
/// several replicas. All replicas decide alike. With NCCL it blocks until all replicas have called it. Main thread.
/// @param links set to those among the replicas, which must outlive the exchange; null: NCCL needs none.
/// @return kUnavailable: NCCL can't connect, or what `rendezvous` returned; kFailedPrecondition: the transport can't
/// register memory.
StatusOr<std::unique_ptr<Exchange>> MakeNodeExchange(const ExchangeOptions& options,
                                                     std::unique_ptr<ExchangeLinks>* links);

/// Makes a replica's side of the parameter servers of its stage, which must have some. Main thread.
/// @param options whose callbacks, device and rendezvous are not read. @param store the parameters of `options.params`;
/// must outlive the client. @param links set, and must outlive it.
/// @return kFailedPrecondition: the transport can't register memory.
StatusOr<std::unique_ptr<ServerClient>> MakeServerClient(const ExchangeOptions& options, const ParamStore& store,
                                                         ServerClient::Callbacks callbacks,
                                                         std::unique_ptr<ExchangeLinks>* links);
/// Makes a parameter server, likewise. @param start_clock the first update of this run.
/// @return also kResourceExhausted: out of memory.
StatusOr<std::unique_ptr<ParameterServer>> MakeParameterServer(const ExchangeOptions& options, const ParamStore& store,
                                                               int64_t start_clock,
                                                               ParameterServer::GradientsSink on_gradients,
                                                               std::unique_ptr<ExchangeLinks>* links);

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "scheduler/plan/routing_table.h"
#include "transport/connect/tcp_listener.h"
#include "transport/copy/copy_transport.h"
#include "transport/transport.h"
#include "transport/verbs/verbs_transport.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// What a host says about its own devices; wins over the table.
struct HostDevices {
  std::string hca;          ///< empty: as the table says
  int gid_index = kNotSet;  ///< likewise
  static constexpr int kNotSet = -2;
};

/// How node `rank` finds its peers, by the table.
ConnectOptions ConnectOptionsFor(const RoutingTable& table, Rank rank);

/// The table's verbs section with what this host says: flags, then the table, then NCCL_IB_HCA and NCCL_IB_GID_INDEX.
/// @param environment as Environment(). @return kInvalidArgument: a value is out of range.
StatusOr<VerbsSettings> VerbsSettingsFor(const RoutingTableConfig& table, const HostDevices& host,
                                         const std::function<std::string(const char*)>& environment);

/// What MakeCopyTransport tells its node. From threads of the transport.
struct CopyCallbacks {
  std::function<void(Rank peer)> on_settled;             ///< whether tensors to and from `peer` are copied is known
  std::function<void(const Status& status)> on_failure;  ///< our GPU failed
};

/// Around `beneath`, a transport that copies tensors between GPUs of one host. Logs of each pair how its tensors go.
/// @param copier our GPU, for a node that has one. @return null: by the table there is nobody to copy to or from, or it
/// wants no copies. All nodes see that alike.
std::unique_ptr<CopyTransport> MakeCopyTransport(const RoutingTable& table, Rank rank, DeviceCopier* copier,
                                                 Transport* beneath, CopyCallbacks callbacks);

/// The transport that the table names. @return kFailedPrecondition: kind VERBS, and no usable device here.
StatusOr<std::unique_ptr<Transport>> MakeNodeTransport(const RoutingTable& table, Rank rank, const HostDevices& host,
                                                       std::unique_ptr<TcpListener> listener);

}  // namespace hp

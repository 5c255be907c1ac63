#pragma once

#include "base/job_token.h"
#include "hp/status.h"
#include "scheduler/plan/routing_table.h"
#include "transport/connect/tcp_listener.h"
#include "transport/copy/copy_transport.h"
#include "transport/transport.h"
#include "transport/verbs/verbs_transport.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace hp {

/// What flags of this host say about its RDMA devices; they win over the table.
struct HostDevices {
  std::string hca;                    ///< as VerbsConfig::hca; empty: as the table says
  int gid_index = kNotSet;            ///< as VerbsConfig::gid_index: -1: chosen; kNotSet: as the table says
  static constexpr int kNotSet = -2;  ///< no flag was given
};

/// What a process says beside the table of the host that it runs on.
struct HostSettings {
  HostDevices devices;
  int wait_s = 0;               ///< for the other nodes to appear, in s; 0: as the table says
  std::string interface;        ///< what to listen on, as OwnAddressOn; empty: as the table says
  std::optional<JobKeys> keys;  ///< what peers have to prove; none: the job has no token
};

/// What to tell a user whose table wants TLS (kInvalidArgument).
Status NoTokenForTls(const RoutingTable& table);

/// How node `rank` finds its peers over TCP, by the table: all nodes' addresses, its own to bind to, the time limit.
/// @param listen the address that it listens on; empty or a name: the system chooses what it dials from.
ConnectOptions ConnectOptionsFor(const RoutingTable& table, Rank rank, const HostSettings& host = {},
                                 const std::string& listen = "");

/// Where a node listens: on --interface, else on the table's `listen`, else on its host's address.
/// @return kInvalidArgument: the interface is not here.
StatusOr<std::string> ListenAddress(const NodeInfo& node, const HostSettings& host);

/// Takes the node's port, on ListenAddress. A name of this host that is not known yet is tried again as long as the
/// node would wait for the others. @param port instead of the node's, as TcpListener::Bind; none: the node's.
/// @return also TcpListener::Bind's errors: the port is taken, the address is not of this host.
StatusOr<std::unique_ptr<TcpListener>> ListenAsNode(const RoutingTable& table, Rank rank, const HostSettings& host,
                                                    std::optional<int> port = std::nullopt);

/// The table's verbs section completed by this host: device and GID index come from `host`, else from the table, else
/// from the environment variables NCCL_IB_HCA and NCCL_IB_GID_INDEX.
/// @param environment reads a variable, as Environment(). @return kInvalidArgument: a value is out of range.
StatusOr<VerbsSettings> VerbsSettingsFor(const RoutingTableConfig& table, const HostDevices& host,
                                         const std::function<std::string(const char*)>& environment);

/// The nodes whose memory a node might copy into: for a GPU all others on GPUs, of whatever host; for processors all
/// others on processors with the same `host` in the table. None with device_copies: OFF. Both nodes of a pair say the
/// same.
std::set<Rank> CopyPeers(const RoutingTable& table, Rank rank);

/// Bytes of the smallest tensor that nodes on processors copy: less is sooner there through a socket
/// (test/bench/README.md).
constexpr size_t kLeastHostCopy = size_t{16} << 10;

/// What a CopyTransport reports to its node, on threads of the transport; must not block. Both must be set.
struct CopyCallbacks {
  /// It is decided whether tensors from and to `peer` are copied. Once for each of CopyPeers that connects.
  std::function<void(Rank peer)> on_settled;
  std::function<void(const Status& status)> on_failure;  ///< our device failed in a copy
};

/// Puts a transport around `beneath` that copies tensors within the host (transport/copy/copy_transport.h). Logs for
/// each of CopyPeers which route its tensors take, and why. The result must be started instead of `beneath`.
/// @param table,copier,beneath must outlive it. @param copier of our device; null: there is none.
/// @param least_host_copy bytes from which processors copy. @return null: no copier of the kind of device
/// that the table gives the node, or no peers.
std::unique_ptr<CopyTransport> MakeCopyTransport(const RoutingTable& table, Rank rank, DeviceCopier* copier,
                                                 size_t least_host_copy, Transport* beneath, CopyCallbacks callbacks);

/// Makes the transport that the table names, TCP or RDMA; not started.
/// @param listener on the node's address, for peers of higher rank and clients.
/// @return kFailedPrecondition: kind VERBS, and no usable device here; kInvalidArgument: a setting of the verbs
/// section, a flag or a variable is out of range, or the table wants TLS and there is no token.
StatusOr<std::unique_ptr<Transport>> MakeNodeTransport(const RoutingTable& table, Rank rank, const HostSettings& host,
                                                       std::unique_ptr<TcpListener> listener);

}  // namespace hp

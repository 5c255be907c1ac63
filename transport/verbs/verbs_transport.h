#pragma once

#include "hp/status.h"
#include "transport/connect/options.h"
#include "transport/connect/socket_link.h"
#include "transport/connect/tcp_listener.h"
#include "transport/transport.h"
#include "transport/verbs/settings.h"

#include <memory>
#include <string>

namespace hp {

class Verbs;

/// How nodes reach each other by RDMA, and which peers they reach by TCP. Constant once the transport is made.
struct VerbsOptions {
  /// How nodes find each other over TCP. Clients stay on TCP.
  ConnectOptions connect;
  /// Makes the links of clients, and with `fall_back` of nodes without RDMA: MakeTcpLink. Must be set.
  MakeSocketLink tcp_link = {};
  VerbsSettings settings;
  /// Our numeric address as the peers know it: decides which device and GID are used. Empty: connect.bind_host.
  std::string address = {};
  /// Whether two nodes of which one has no usable device talk over TCP (kind AUTO); false: OnConnectFailed (kind
  /// VERBS).
  bool fall_back = false;
  Verbs* verbs = nullptr;         ///< null: libibverbs
  std::string sys_root = "/sys";  ///< where kernel modules and PCI devices are looked up
};

/// Makes a transport with RDMA queue pairs to each node that has a device, over InfiniBand or RoCE; README.md of this
/// folder has the design. Opens the device; nothing is sent before Start. Places and sources should be registered once
/// (Transport::Register), else each use registers them.
/// @param listener where peers of higher rank and clients connect; null: nobody can.
/// @return kFailedPrecondition: no usable device (and no fall_back), with what to do about it; kInvalidArgument: a
/// setting is out of range.
StatusOr<std::unique_ptr<Transport>> MakeVerbsTransport(VerbsOptions options, std::unique_ptr<TcpListener> listener);

class VerbsHost;
/// Opens the device that the options select, for MakeVerbsTransport. @return kFailedPrecondition: none is usable, or
/// this build has no libibverbs.
StatusOr<std::unique_ptr<VerbsHost>> OpenVerbsHost(const VerbsOptions& options);

}  // namespace hp

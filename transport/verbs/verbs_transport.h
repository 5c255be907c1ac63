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

/// How nodes reach each other by RDMA, and whom they reach without. Constant once the transport is made.
struct VerbsOptions {
  /// How nodes find each other: over TCP, which clients stay on.
  ConnectOptions connect;
  /// Makes the links of clients, and with `fall_back` of nodes without RDMA: MakeTcpLink. Must be set.
  MakeSocketLink tcp_link = {};
  VerbsSettings settings;
  /// Our numeric address as the peers know it: tells which device and GID are meant. Empty: connect.bind_host.
  std::string address = {};
  /// Whether a pair of nodes of which one has no usable device talks over TCP, instead of failing to connect.
  bool fall_back = false;
  Verbs* verbs = nullptr;         ///< null: libibverbs
  std::string sys_root = "/sys";  ///< where kernel modules and PCI places are looked up
};

/// A transport with RDMA queue pairs to each node that has a device, over InfiniBand or RoCE:
/// transport/verbs/README.md. Opens the device; nothing is sent before Start.
/// @param listener where the peers of higher rank and clients find us; null: nobody does.
/// @return kFailedPrecondition: there is no usable device (and no fall_back), with what to do about it;
/// kInvalidArgument: a setting is out of range.
StatusOr<std::unique_ptr<Transport>> MakeVerbsTransport(VerbsOptions options, std::unique_ptr<TcpListener> listener);

class VerbsHost;
/// Opens the device that the options name. @return kFailedPrecondition: none is usable, or this build has no verbs.
StatusOr<std::unique_ptr<VerbsHost>> OpenVerbsHost(const VerbsOptions& options);

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/settings.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hp {

using Gid = std::array<uint8_t, 16>;

/// An entry of a port's GID table.
struct GidEntry {
  Gid gid = {};
  uint32_t index = 0;
  int roce_version = 0;  ///< 0: InfiniBand
  bool ipv4() const;
  bool link_local() const;
};
std::string GidText(const Gid& gid);

/// Where a port is, as peers must know it.
struct PortAddress {
  Gid gid = {};
  uint16_t lid = 0;
  bool ethernet = true;
};

/// The GID of an IPv4 or IPv6 address (IPv4 mapped, as RoCE has it); all zero: not an address.
Gid GidOfAddress(const std::string& address);

/// The entries of `port` that are set.
std::vector<GidEntry> ReadGids(Verbs* verbs, ibv_context* context, uint8_t port, int table_length);
/// The entry to talk from: never link-local if there is another, RoCE v2 before v1, then the address family of
/// `address`, then `address` itself, then the lowest index. `gid_index` and `roce_version` of the settings hold.
/// @return kFailedPrecondition: there is none; the message lists those there are.
StatusOr<GidEntry> ChooseGid(const std::vector<GidEntry>& gids, const VerbsSettings& settings,
                             const std::string& address);

/// Whether `device` and `port` are among those that `hca` names (VerbsSettings::hca).
bool HcaMatches(const std::string& hca, const std::string& device, int port);

/// Why a port can't be used; empty: it can.
std::string PortFault(const ibv_port_attr& port);

/// A port that can be used, on an open device.
struct OpenPort {
  ContextHandle context;
  std::string device;
  uint8_t port = 1;
  ibv_port_attr attributes = {};
};
/// Opens the device to use: among the active ports that `hca` allows, one that has `address` among its GIDs, else the
/// first. @return kFailedPrecondition: there is none; the message says what was there and why it is not usable.
StatusOr<OpenPort> OpenBestPort(Verbs* verbs, const VerbsSettings& settings, const std::string& address);

}  // namespace hp

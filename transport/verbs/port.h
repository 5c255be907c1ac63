#pragma once

#include "hp/status.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/settings.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hp {

using Gid = std::array<uint8_t, 16>;  ///< in network byte order, as an IPv6 address

/// An entry of a port's GID table.
struct GidEntry {
  Gid gid = {};
  uint32_t index = 0;       ///< in the table
  int roce_version = 0;     ///< 1 or 2; 0: InfiniBand
  bool ipv4() const;        ///< an IPv4 address, mapped (::ffff:a.b.c.d)
  bool link_local() const;  ///< fe80::/10
};
/// As an IPv6 address, for messages.
std::string GidText(const Gid& gid);

/// The address of a port, as its peers need it.
struct PortAddress {
  Gid gid = {};
  uint16_t lid = 0;      ///< InfiniBand only
  bool ethernet = true;  ///< link layer; false: InfiniBand
};

/// The GID of a numeric IPv4 or IPv6 address (IPv4 mapped, as in RoCE). @return all zero: `address` is not one.
Gid GidOfAddress(const std::string& address);

/// The entries of the GID table of `port` that are set, by index. @param table_length ibv_port_attr::gid_tbl_len.
std::vector<GidEntry> ReadGids(Verbs* verbs, ibv_context* context, uint8_t port, int table_length);
/// Chooses the GID to send from: among the entries that settings.gid_index and roce_version allow, not link-local
/// before link-local, RoCE v2 before v1, then those of the address family of `address`, then `address` itself, then the
/// lowest index. @param address ours; empty: IPv4 is preferred.
/// @return kFailedPrecondition: there is none; the message lists the table.
StatusOr<GidEntry> ChooseGid(const std::vector<GidEntry>& gids, const VerbsSettings& settings,
                             const std::string& address);

/// Whether `hca` (VerbsSettings::hca, which has the syntax) selects this port of this device.
bool HcaMatches(const std::string& hca, const std::string& device, int port);

/// Why a port cannot be used, for messages; empty: it is active.
std::string PortFault(const ibv_port_attr& port);

/// An active port of an open device.
struct OpenPort {
  ContextHandle context;
  std::string device;  ///< "mlx5_0"
  uint8_t port = 1;    ///< from 1
  ibv_port_attr attributes = {};
};
/// Opens the device to use: among the active ports that settings.hca selects the first with `address` among its GIDs,
/// else the first. @return kFailedPrecondition: there is none; the message lists the ports and why each is not usable.
StatusOr<OpenPort> OpenBestPort(Verbs* verbs, const VerbsSettings& settings, const std::string& address);

}  // namespace hp

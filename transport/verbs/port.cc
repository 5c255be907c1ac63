#include "transport/verbs/port.h"

#include "base/format.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int RoceVersion(uint32_t gid_type) {
  return gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
}

std::string ListGids(const std::vector<GidEntry>& gids) {
  std::string list;
  for (const GidEntry& entry : gids) {
    list += Format("%s%u: %s (%s)", list.empty() ? "" : ", ", entry.index, GidText(entry.gid).c_str(),
                   entry.roce_version == 2   ? "RoCE v2"
                   : entry.roce_version == 1 ? "RoCE v1"
                                             : "InfiniBand");
  }
  return list.empty() ? "no GIDs at all (has the network interface an address?)" : list;
}

bool HasAddress(Verbs* verbs, const OpenPort& port, const std::string& address) {
  const Gid wanted = GidOfAddress(address);
  if (wanted == Gid{}) return false;
  for (const GidEntry& entry : ReadGids(verbs, port.context.get(), port.port, port.attributes.gid_tbl_len)) {
    if (entry.gid == wanted) return true;
  }
  return false;
}

struct Search {
  std::string seen;
  OpenPort best;
  bool has_address = false;
};

void LookAtDevice(Verbs* verbs, ibv_device* device, const VerbsSettings& settings, const std::string& address,
                  Search* search) {
  const std::string name = verbs->GetDeviceName(device);
  const auto note = [&](const std::string& what) { search->seen += (search->seen.empty() ? "" : "; ") + what; };
  for (uint8_t port = 1, ports = 1; port <= ports; ++port) {
    ContextHandle context(verbs->OpenDevice(device), {verbs});
    if (!context) return note(name + " can't be opened: " + std::strerror(errno));
    ibv_device_attr attributes = {};
    if (const int error = verbs->QueryDevice(context.get(), &attributes)) {
      return note(name + " can't be queried: " + std::strerror(error));
    }
    ports = attributes.phys_port_cnt;
    const std::string label = Format("%s:%d", name.c_str(), port);
    if (!HcaMatches(settings.hca, name, port)) {
      note(label + " is not among \"" + settings.hca + "\"");
      continue;
    }
    OpenPort found{std::move(context), name, port, {}};
    if (const int error = verbs->QueryPort(found.context.get(), port, &found.attributes)) {
      note(label + " can't be queried: " + std::strerror(error));
      continue;
    }
    if (const std::string fault = PortFault(found.attributes); !fault.empty()) {
      note(label + " is " + fault);
      continue;
    }
    const bool has_address = HasAddress(verbs, found, address);
    if (search->best.context && (search->has_address || !has_address)) continue;
    search->best = std::move(found);
    search->has_address = has_address;
  }
}

}  // namespace

std::string PortFault(const ibv_port_attr& port) {
  if (port.state == IBV_PORT_ACTIVE) return "";
  const char* state = port.state == IBV_PORT_DOWN    ? "down (cable, or `ip link set ... up`)"
                      : port.state == IBV_PORT_INIT  ? "initialising (InfiniBand: does a subnet manager run?)"
                      : port.state == IBV_PORT_ARMED ? "armed, not active yet"
                                                     : "not active";
  return state;
}

bool GidEntry::ipv4() const { return std::memcmp(gid.data(), kMappedPrefix, sizeof(kMappedPrefix)) == 0; }

bool GidEntry::link_local() const { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

std::string GidText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.data(), text, sizeof(text));
  return text;
}

Gid GidOfAddress(const std::string& address) {
  Gid gid = {};
  if (inet_pton(AF_INET, address.c_str(), gid.data() + sizeof(kMappedPrefix)) == 1) {
    std::memcpy(gid.data(), kMappedPrefix, sizeof(kMappedPrefix));
  } else if (inet_pton(AF_INET6, address.c_str(), gid.data()) != 1) {
    gid = {};
  }
  return gid;
}

std::vector<GidEntry> ReadGids(Verbs* verbs, ibv_context* context, uint8_t port, int table_length) {
  std::vector<GidEntry> gids;
  for (int index = 0; index < table_length; ++index) {
    ibv_gid_entry raw = {};
    if (verbs->QueryGid(context, port, static_cast<uint32_t>(index), &raw) != 0) continue;  // not set
    GidEntry entry{.index = static_cast<uint32_t>(index), .roce_version = RoceVersion(raw.gid_type)};
    std::memcpy(entry.gid.data(), raw.gid.raw, entry.gid.size());
    if (entry.gid != Gid{}) gids.push_back(entry);
  }
  return gids;
}

StatusOr<GidEntry> ChooseGid(const std::vector<GidEntry>& gids, const VerbsSettings& settings,
                             const std::string& address) {
  const Gid own = GidOfAddress(address);
  const bool want_ipv4 = own == Gid{} || GidEntry{.gid = own}.ipv4();
  const GidEntry* best = nullptr;
  int best_score = -1;
  for (const GidEntry& entry : gids) {
    if (settings.gid_index >= 0 && entry.index != static_cast<uint32_t>(settings.gid_index)) continue;
    if (settings.roce_version != 0 && entry.roce_version != 0 && entry.roce_version != settings.roce_version) continue;
    const int score = 8 * !entry.link_local() + 4 * (entry.roce_version != 1) + 2 * (entry.ipv4() == want_ipv4) +
                      1 * (entry.gid == own);
    if (score > best_score) {
      best = &entry;
      best_score = score;
    }
  }
  if (best != nullptr) return *best;
  std::string wanted;
  if (settings.gid_index >= 0) wanted += Format(" with index %d", settings.gid_index);
  if (settings.roce_version != 0) wanted += Format(" of RoCE v%d", settings.roce_version);
  return FailedPrecondition("no GID%s; there are: %s", wanted.c_str(), ListGids(gids).c_str());
}

bool HcaMatches(const std::string& hca, const std::string& device, int port) {
  const bool others = hca.starts_with('^');
  const bool exact = hca.substr(others).starts_with('=');
  std::string rest = hca.substr(others + exact);
  if (rest.empty()) return true;
  bool named = false;
  while (!rest.empty()) {
    const std::string item = rest.substr(0, rest.find(','));
    rest.erase(0, item.size() + 1);
    const std::string name = item.substr(0, item.find(':'));
    const bool port_fits = name.size() == item.size() || item.substr(name.size() + 1) == std::to_string(port);
    named |= !name.empty() && port_fits && (exact ? device == name : device.starts_with(name));
  }
  return named != others;
}

StatusOr<OpenPort> OpenBestPort(Verbs* verbs, const VerbsSettings& settings, const std::string& address) {
  Search search;
  const DeviceList devices(verbs);
  for (ibv_device* device : devices) LookAtDevice(verbs, device, settings, address, &search);
  if (search.best.context) return std::move(search.best);
  if (search.seen.empty()) {
    return FailedPrecondition(
        "no RDMA device here (ibv_devices lists them; without an adapter, software RDMA: rdma link add rxe0 type rxe "
        "netdev eth0)");
  }
  return FailedPrecondition("no usable RDMA device here: %s", search.seen.c_str());
}

}  // namespace hp

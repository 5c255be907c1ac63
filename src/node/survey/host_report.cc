#include "node/survey/host_report.h"

#include "base/cores.h"
#include "base/host.h"
#include "base/memory_room.h"

#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace hp {
namespace {

/// A UDP socket, which sends nothing by itself.
class Probe {
 public:
  /// @param towards numeric address that it is connected to; empty: none
  explicit Probe(const std::string& towards) {
    addrinfo hints = {};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* raw = nullptr;
    if (getaddrinfo(towards.empty() ? "127.0.0.1" : towards.c_str(), "9", &hints, &raw) != 0) return;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, &freeaddrinfo);
    family_ = found->ai_family;
    fd_ = socket(family_, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    connected_ = fd_ >= 0 && !towards.empty() && connect(fd_, found->ai_addr, found->ai_addrlen) == 0;
  }
  ~Probe() {
    if (fd_ >= 0) close(fd_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  int fd() const { return fd_; }
  int family() const { return family_; }
  bool connected() const { return connected_; }

 private:
  int fd_ = -1, family_ = AF_INET;
  bool connected_ = false;
};

int InterfaceMtu(const std::string& interface) {
  const Probe probe("");
  ifreq request = {};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof(request.ifr_name) - 1);
  return ioctl(probe.fd(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

int InterfaceSpeed(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  int mbit_per_s = 0;
  return file >> mbit_per_s ? std::max(mbit_per_s, 0) : 0;
}

}  // namespace

HostReport ReportOfThisHost(const std::string& address, const std::string& folder) {
  HostReport report;
  report.set_cores(AvailableCores());
  report.set_memory_mb(HostMemoryTotal().bytes >> 20);
  report.set_free_memory_mb(HostMemoryRoom().bytes >> 20);
  std::error_code error;
  report.set_folder(std::filesystem::is_directory(folder, error) ? folder
                                                                 : std::filesystem::current_path(error).string());
  const auto space = std::filesystem::space(report.folder(), error);
  if (!error) report.set_free_disk_mb(static_cast<int64_t>(space.available >> 20));
  report.set_interface(InterfaceOf(address));
  report.set_mtu(InterfaceMtu(report.interface()));
  report.set_speed_mbit_per_s(InterfaceSpeed(report.interface()));
  return report;
}

bool WantsBFloat16(const RoutingTable& table, const std::string& host) {
  // Only shards of several can't have convolutions; whether there are any the net says, which is not read here.
  const auto convolves = [&table](const StagePart& part) {
    return table.stage(part.stage).conv || table.stage(part.stage).size() == 1;
  };
  const bool on_cpu = std::any_of(table.nodes().begin(), table.nodes().end(), [&](const NodeInfo& node) {
    return node.host == host && node.device == "cpu" && std::any_of(node.parts.begin(), node.parts.end(), convolves);
  });
  return on_cpu && table.config().precision() == RoutingTableConfig::BF16;
}

bool WantsJpegDecoder(const RoutingTable& table, const std::string& host) {
  const std::vector<Rank>& readers = table.stage(0).ranks;
  return table.decodes_on_gpus() &&
         std::any_of(readers.begin(), readers.end(), [&](Rank rank) { return table.node(rank).host == host; });
}

int PathMtu(const std::string& address) {
  const Probe probe(address);
  int mtu = 0;
  socklen_t length = sizeof(mtu);
  if (!probe.connected()) return 0;
  const bool ipv6 = probe.family() == AF_INET6;
  const int level = ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, option = ipv6 ? IPV6_MTU : IP_MTU;
  return getsockopt(probe.fd(), level, option, &mtu, &length) == 0 ? mtu : 0;
}

std::string AddressTowards(const std::string& address) {
  const Probe probe(address);
  sockaddr_storage own = {};
  socklen_t length = sizeof(own);
  char text[NI_MAXHOST] = "";
  if (!probe.connected() || getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text;
}

}  // namespace hp

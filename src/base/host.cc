#include "base/host.h"

#include "base/format.h"
#include "base/hash.h"
#include "base/subnet.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>

namespace hp {
namespace {

std::string Numeric(const sockaddr* address) {
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST];
  if (getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

void AddOnce(const std::string& item, std::vector<std::string>* list) {
  if (!item.empty() && std::find(list->begin(), list->end(), item) == list->end()) list->push_back(item);
}

bool IsLoopback(const std::string& address) { return address.rfind("127.", 0) == 0 || address == "::1"; }

struct InterfaceAddress {
  std::string interface, address;
};

std::vector<InterfaceAddress> InterfaceAddresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) found.push_back({entry->ifa_name, Numeric(entry->ifa_addr)});
  }
  return found;
}

}  // namespace

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> addresses;
  for (const InterfaceAddress& own : InterfaceAddresses()) AddOnce(own.address, &addresses);
  return addresses;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string UserName() {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> texts(16 << 10);
  if (getpwuid_r(geteuid(), &entry, texts.data(), texts.size(), &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(geteuid());
}

std::string BareHost(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

std::string HostPort(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Status ParseHostPort(const std::string& flag, const std::string& text, std::string* host, int* port) {
  const size_t colon = text.rfind(':');
  std::string name = colon == std::string::npos ? "" : text.substr(0, colon);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
  } else if (name.find_first_of("[]:/ ") != std::string::npos) {
    return InvalidArgument("--%s: \"%s\" is no HOST:PORT (an IPv6 address stands in brackets)", flag.c_str(),
                           text.c_str());
  }
  int number = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + std::min(colon, text.size() - 1) + 1, end, number);
  if (colon == std::string::npos || error != std::errc() || stop != end || number < 0 || number > 65535) {
    return InvalidArgument("--%s: \"%s\" is no HOST:PORT", flag.c_str(), text.c_str());
  }
  *host = name;
  *port = number;
  return OkStatus();
}

StatusOr<std::string> OwnAddressOn(const std::string& interface, const std::string& dialled) {
  const std::vector<std::string> wanted = ResolveHost(dialled);
  const auto fitness = [&wanted](const std::string& address) {
    int fit = IsInSubnet(address, "fe80::/10") ? 1 : 2;
    for (const std::string& other : wanted) {
      fit = std::max(fit, other == address                                                 ? 8
                          : BytesOfAddress(other).size() == BytesOfAddress(address).size() ? 2 + fit
                                                                                           : 0);
    }
    return fit;
  };
  std::string all, best;
  for (const InterfaceAddress& own : InterfaceAddresses()) {
    const bool fits = own.interface == interface || IsInSubnet(own.address, interface);
    if (fits && (best.empty() || fitness(own.address) > fitness(best))) best = own.address;
    all += (all.empty() ? "" : ", ") + own.interface + " " + own.address;
  }
  if (!best.empty()) return best;
  return InvalidArgument(
      "no address of this host is on the interface \"%s\" (a name, or a network like 10.0.0.0/8); "
      "it has %s",
      interface.c_str(), all.c_str());
}

std::string InterfaceOf(const std::string& address) {
  for (const InterfaceAddress& own : InterfaceAddresses()) {
    if (own.address == address) return own.interface;
  }
  return "";
}

std::string OwnAddressToward(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // to connect one only looks the route up
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(list, &freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own = {};
    socklen_t length = sizeof(own);
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    const bool found = connect(fd, at->ai_addr, at->ai_addrlen) == 0 && getsockname(fd, address, &length) == 0;
    close(fd);
    if (found) return Numeric(address);
  }
  return "";
}

bool IsPrivateAddress(const std::string& address) {
  for (const char* network : {"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
                              "100.64.0.0/10", "::1/128", "fc00::/7", "fe80::/10"}) {
    if (IsInSubnet(address, network)) return true;
  }
  return false;
}

bool IsLoopbackHost(const std::string& host) {
  const std::vector<std::string> addresses = ResolveHost(host);
  return !host.empty() && !addresses.empty() &&
         std::all_of(addresses.begin(), addresses.end(),
                     [](const std::string& address) { return address == "::1" || address.starts_with("127."); });
}

std::vector<std::string> ResolveHost(const std::string& host) {
  std::vector<std::string> addresses;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (host.empty() || getaddrinfo(BareHost(host).c_str(), nullptr, &hints, &raw) != 0) return addresses;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(raw, &freeaddrinfo);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    AddOnce(Numeric(entry->ai_addr), &addresses);
  }
  return addresses;
}

std::vector<std::string> CanonicalAddresses(const std::string& host) {
  const std::vector<std::string> own = OwnAddresses();
  std::vector<std::string> addresses;
  for (const std::string& address : ResolveHost(host)) {
    const bool here = IsLoopback(address) || std::find(own.begin(), own.end(), address) != own.end();
    AddOnce(here ? kThisHost : address, &addresses);
  }
  return addresses;
}

bool IsThisHost(const std::string& host) {
  const std::vector<std::string> addresses = CanonicalAddresses(host);
  return std::find(addresses.begin(), addresses.end(), kThisHost) != addresses.end();
}

uint64_t HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? HashBytes(id) : 0;
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return statm ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace hp

#include "base/host.h"

#include "base/hash.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>

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

}  // namespace

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> addresses;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) AddOnce(Numeric(entry->ifa_addr), &addresses);
  }
  return addresses;
}

std::vector<std::string> ResolveHost(const std::string& host) {
  std::vector<std::string> addresses;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), nullptr, &hints, &raw) != 0) return addresses;
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

int AvailableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace hp

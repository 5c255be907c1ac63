#include "base/subnet.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <bit>
#include <charconv>
#include <memory>

namespace hp {
namespace {

std::string TextOf(const std::vector<uint8_t>& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof(text));
  return text;
}

/// The bytes of an interface's address or mask; empty: it is of another family.
std::vector<uint8_t> BytesOf(const sockaddr* address) {
  const void* from = nullptr;
  size_t size = 0;
  if (address != nullptr && address->sa_family == AF_INET) {
    from = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    size = 4;
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    from = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    size = 16;
  }
  const auto* const begin = static_cast<const uint8_t*>(from);
  return {begin, begin + size};
}

}  // namespace

std::vector<uint8_t> BytesOfAddress(const std::string& address) {
  const std::string plain = address.substr(0, address.find('%'));  // without the interface of a link-local one
  std::vector<uint8_t> bytes(4);
  if (inet_pton(AF_INET, plain.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(16);
  if (inet_pton(AF_INET6, plain.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

bool IsInSubnet(const std::string& address, const std::string& subnet) {
  const size_t slash = subnet.find('/');
  if (slash == std::string::npos) return false;
  const std::vector<uint8_t> bytes = BytesOfAddress(address), net = BytesOfAddress(subnet.substr(0, slash));
  int bits = -1;
  const char* const end = subnet.data() + subnet.size();
  const auto [rest, error] = std::from_chars(subnet.data() + slash + 1, end, bits);
  if (error != std::errc() || rest != end || bytes.empty() || bytes.size() != net.size()) return false;
  if (bits < 0 || bits > static_cast<int>(8 * bytes.size())) return false;
  for (int bit = 0; bit < bits; ++bit) {
    if (((bytes[bit / 8] ^ net[bit / 8]) & (0x80 >> bit % 8)) != 0) return false;
  }
  return true;
}

std::string SubnetOf(const std::string& address, int prefix_length) {
  std::vector<uint8_t> bytes = BytesOfAddress(address);
  const int bits = static_cast<int>(8 * bytes.size());
  if (bytes.empty() || prefix_length < 0 || prefix_length > bits) return "";
  for (int bit = prefix_length; bit < bits; ++bit) bytes[bit / 8] &= static_cast<uint8_t>(~(0x80 >> bit % 8));
  return TextOf(bytes) + "/" + std::to_string(prefix_length);
}

int PrefixLengthOf(const std::string& own_address) {
  const std::vector<uint8_t> wanted = BytesOfAddress(own_address);
  ifaddrs* raw = nullptr;
  if (wanted.empty() || getifaddrs(&raw) != 0) return 0;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (BytesOf(entry->ifa_addr) != wanted) continue;
    int bits = 0;
    for (const uint8_t byte : BytesOf(entry->ifa_netmask)) bits += std::popcount(byte);
    return bits;
  }
  return 0;
}

}  // namespace hp

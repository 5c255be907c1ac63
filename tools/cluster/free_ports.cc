// A port is taken by a bind without SO_REUSEADDR, which fails if anybody has the port, listening or not. The option is
// set afterwards: Linux then lets a second socket with the option have the port, as long as the first does not listen.
#include "tools/cluster/free_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

namespace hp {
namespace {

constexpr int kFirstPort = 20000, kLastPort = 32000;
constexpr int kMostTries = 20000;

bool BindTo(int socket, int family, int port) {
  if (family == AF_INET6) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(port));
    return bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;  // of IPv4 as well
  }
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<uint16_t>(port));
  return bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
}

/// @return a socket that holds the port; -1: others have it.
int Hold(int port) {
  int family = AF_INET6;
  int held = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (held < 0) held = socket(family = AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (held < 0) return -1;
  const int no = 0, yes = 1;
  if (family == AF_INET6) setsockopt(held, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  if (BindTo(held, family, port) && setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0) return held;
  close(held);
  return -1;
}

}  // namespace

StatusOr<std::vector<int>> FreePorts::Take(int count) {
  Release();
  std::random_device random;
  std::uniform_int_distribution<int> draw(kFirstPort, kLastPort);
  std::vector<int> ports;
  for (int tries = 0; static_cast<int>(ports.size()) < count; ++tries) {
    if (tries == kMostTries) {
      return ResourceExhausted("%zu of %d TCP ports from %d to %d are free", ports.size(), count, kFirstPort,
                               kLastPort);
    }
    const int port = draw(random);
    const int held = Hold(port);
    if (held < 0) continue;
    held_.push_back(held);
    ports.push_back(port);
  }
  return ports;
}

void FreePorts::Release() {
  for (const int held : held_) close(held);
  held_.clear();
}

}  // namespace hp

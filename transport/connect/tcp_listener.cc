#include "transport/connect/tcp_listener.h"

#include "base/host.h"
#include "base/port_holder.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace hp {
namespace {

constexpr int kBacklog = 128;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

StatusOr<Addresses> Resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = host.empty() ? AF_INET : AF_UNSPEC;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return FailedPrecondition("can't resolve host \"%s\": %s", host.c_str(), gai_strerror(error));
  return Addresses(list);
}

Status Listen(int fd, const addrinfo& address, const std::string& name, int port) {
  const int on = 1;  // a port that only waits for its last connections to time out is free
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, kBacklog) == 0) return OkStatus();
  const int error = errno;
  const std::optional<PortHolder> holder = error == EADDRINUSE ? FindPortHolder(port) : std::nullopt;
  return FailedPrecondition("can't listen on %s: %s%s", name.c_str(), std::strerror(error),
                            holder ? (", held by " + holder->ToString()).c_str() : "");
}

int BoundPort(int fd) {
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

StatusOr<std::unique_ptr<TcpListener>> TcpListener::Bind(const std::string& host, int port) {
  const std::string name = HostPort(host.empty() ? "*" : host, port);
  if (port < 0 || port > 65535) return InvalidArgument("can't listen on %s: ports are 0 to 65535", name.c_str());
  HP_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port));
  const int fd = socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return FailedPrecondition("can't listen on %s: %s", name.c_str(), std::strerror(errno));
  std::unique_ptr<TcpListener> listener(new TcpListener(fd, port, addresses->ai_family == AF_INET6));
  HP_RETURN_IF_ERROR(Listen(fd, *addresses, name, port));
  listener->port_ = BoundPort(fd);
  return listener;
}

TcpListener::~TcpListener() {
  if (fd_ >= 0) close(fd_);
}

int TcpListener::Release() { return std::exchange(fd_, -1); }

}  // namespace hp

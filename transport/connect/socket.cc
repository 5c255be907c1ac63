#include "transport/connect/socket.h"

#include "base/host.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hp {

namespace {

// Of a connection within a host; the kernel doubles it for its bookkeeping. Left alone it grows to 4 MiB, so that what
// is sent has left the processor's caches when it is received: a sum of 60 MiB over 4 replicas on 2 cores takes 6%
// longer (exchange_speed). Both less and more than this were slower.
constexpr int kSendBufferWithinHost = 512 << 10;

/// Whether both ends are on this host, so that no slow link can be between them.
bool WithinHost(const TcpSocket& socket) {
  boost::system::error_code error;
  const auto local = socket.local_endpoint(error), remote = socket.remote_endpoint(error);
  return !error && local.address() == remote.address();
}

}  // namespace

void Configure(TcpSocket* socket) {
  boost::system::error_code ignored;  // a socket that fails here fails at its first use too, and says so there
  socket->non_blocking(true, ignored);
  socket->set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  if (WithinHost(*socket)) {
    setsockopt(socket->native_handle(), SOL_SOCKET, SO_SNDBUF, &kSendBufferWithinHost, sizeof(kSendBufferWithinHost));
    return;
  }
  setsockopt(socket->native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

std::string RemoteAddress(const TcpSocket& socket) {
  boost::system::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return error.message();
  return HostPort(remote.address().to_string(), remote.port());
}

}  // namespace hp

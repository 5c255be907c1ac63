#include "transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hp {

void Configure(TcpSocket* socket) {
  boost::system::error_code ignored;  // a socket that fails here fails at its first use too, and says so there
  socket->non_blocking(true, ignored);
  socket->set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  setsockopt(socket->native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

std::string RemoteAddress(const TcpSocket& socket) {
  boost::system::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return error.message();
  return Format("%s:%d", remote.address().to_string().c_str(), remote.port());
}

}  // namespace hp

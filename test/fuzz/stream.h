#pragma once

#include "test/fuzz/fuzz.h"
#include "transport/connect/byte_stream.h"

#include <boost/asio/io_context.hpp>
#include <sys/socket.h>

#include <memory>
#include <string_view>
#include <utility>

namespace hp::fuzz {

/// A connection whose other end is the fuzzer's: it sends, and reads nothing but for room.
class Stream {
 public:
  explicit Stream(boost::asio::io_context* io) : socket_(*io) {
    int fds[2];
    Expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    socket_.assign(boost::asio::ip::tcp::v4(), fds[0]);
    Configure(&socket_);
    peer_ = fds[1];
  }
  ~Stream() { close(peer_); }

  std::unique_ptr<ByteStream> Take() { return std::make_unique<ByteStream>(std::move(socket_)); }
  /// At most kMost bytes, which the socket's buffer holds. The receiver may have gone.
  void Send(std::string_view bytes) {
    char answers[4096];
    while (recv(peer_, answers, sizeof(answers), 0) > 0) continue;
    Expect(bytes.size() <= kMost);
    (void)send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void End() { shutdown(peer_, SHUT_WR); }

  static constexpr size_t kMost = 64 << 10;

 private:
  TcpSocket socket_;
  int peer_;
};

}  // namespace hp::fuzz

#pragma once

#include "base/clock.h"
#include "base/format.h"

#include <boost/asio/ip/tcp.hpp>

#include <string>

namespace hp {

using TcpSocket = boost::asio::ip::tcp::socket;

/// Bytes that the kernel may hold unsent on a link between hosts: control posted now waits behind no more than these
/// and what is in flight. Within a host a longer queue costs no time and is 10 to 20% faster.
constexpr int kUnsentBytes = 256 << 10;

/// Prepares a connected socket: non-blocking, without Nagle's delay, and between hosts with a short queue of unsent
/// bytes. An option that can't be set is left as it is.
void Configure(TcpSocket* socket);

/// "10.0.0.1:5000", or what went wrong.
std::string RemoteAddress(const TcpSocket& socket);

/// Lets one log line a second through and counts the others, so that a port scanner fills no log; progress thread.
class LogLimiter {
 public:
  explicit LogLimiter(const Clock* clock) : clock_(clock) {}

  /// @return whether to write a line now; `*suffix` then tells how many were left out.
  bool Allow(std::string* suffix) {
    const int64_t now_ns = clock_->NowNs();
    if (used_ && now_ns - last_ns_ < kNsPerSecond) {
      ++left_out_;
      return false;
    }
    *suffix = left_out_ == 0 ? "" : Format(" (%d like it left out)", left_out_);
    used_ = true;
    last_ns_ = now_ns;
    left_out_ = 0;
    return true;
  }

 private:
  const Clock* const clock_;
  bool used_ = false;
  int64_t last_ns_ = 0;
  int left_out_ = 0;
};

}  // namespace hp

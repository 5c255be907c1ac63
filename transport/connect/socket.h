#pragma once

#include "base/clock.h"
#include "base/format.h"

#include <boost/asio/ip/tcp.hpp>

#include <string>

namespace hp {

using TcpSocket = boost::asio::ip::tcp::socket;

/// The most bytes that the kernel holds unsent on a connection between hosts (TCP_NOTSENT_LOWAT): a control frame that
/// is posted now waits behind no more than these and what is in flight. Within a host the queue is not bounded, which
/// costs no delay and is 10 to 20% faster.
constexpr int kUnsentBytes = 256 << 10;

/// Prepares a connected socket: non-blocking, without Nagle's algorithm (TCP_NODELAY), and between hosts with at most
/// kUnsentBytes unsent. Reports no error: a socket on which this fails also fails at its first use.
void Configure(TcpSocket* socket);

/// For messages: the peer's address and port, "10.0.0.1:5000", or the system's error if it has none.
std::string RemoteAddress(const TcpSocket& socket);

/// Lets one log line a second through and counts the others, so that a port scanner does not fill the log. Progress
/// thread. `clock` must outlive it.
class LogLimiter {
 public:
  explicit LogLimiter(const Clock* clock) : clock_(clock) {}

  /// @return whether to write a line now. If so `*suffix`, to be appended, says how many were left out; may be empty.
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

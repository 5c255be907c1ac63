#include "transport/connect/dialer.h"

#include "base/clock.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr int kMaxPauseMs = 250;

}  // namespace

Dialer::Dialer(boost::asio::io_context* io, std::string host, int port, std::string bind_host, OnSocket on_socket)
    : host_(std::move(host)),
      port_(port),
      bind_host_(std::move(bind_host)),
      on_socket_(std::move(on_socket)),
      resolver_(*io),
      pause_(*io),
      socket_(*io) {}

void Dialer::Attempt() {
  if (stopped_) return;
  attempt_since_ns_ = Clock::Real()->NowNs();
  resolver_.async_resolve(host_, std::to_string(port_), boost::asio::ip::resolver_base::numeric_service,
                          [self = shared_from_this()](const boost::system::error_code& error, const auto& results) {
                            if (self->stopped_) return;
                            if (error) return self->Retry(error.message());
                            self->targets_.assign(results.begin(), results.end());
                            self->next_target_ = 0;
                            self->ConnectNext("no address");
                          });
}

void Dialer::ConnectNext(const std::string& cause) {
  if (next_target_ == targets_.size()) return Retry(cause);
  const auto target = targets_[next_target_++];
  if (const auto error = OpenFor(target)) return ConnectNext(error.message());
  attempt_since_ns_ = Clock::Real()->NowNs();
  socket_.async_connect(target, [self = shared_from_this()](const boost::system::error_code& error) {
    if (self->stopped_) return;
    if (error) return self->ConnectNext(error.message());
    self->OnConnected();
  });
}

boost::system::error_code Dialer::OpenFor(const boost::asio::ip::tcp::endpoint& target) {
  boost::system::error_code error;
  socket_.close(error);
  socket_.open(target.protocol(), error);
  if (error || bind_host_.empty()) return error;
  boost::system::error_code is_name;
  const auto local = boost::asio::ip::make_address(bind_host_, is_name);
  if (!is_name && local.is_v6() == target.address().is_v6()) socket_.bind({local, 0}, error);
  return error;
}

void Dialer::OnConnected() {
  attempt_since_ns_ = 0;
  boost::system::error_code error;
  const auto local = socket_.local_endpoint(error), remote = socket_.remote_endpoint(error);
  // The kernel may pick the very port that nobody listens on yet, and connect the socket to itself.
  if (error || local == remote) return Retry("Connection refused");
  Configure(&socket_);
  on_socket_(std::exchange(socket_, TcpSocket(socket_.get_executor())));
}

void Dialer::Retry(const std::string& cause) {
  if (stopped_) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  attempt_since_ns_ = 0;
  cause_ = cause;
  pause_.expires_after(std::chrono::milliseconds(pause_ms_));
  pause_ms_ = std::min(2 * pause_ms_, kMaxPauseMs);
  pause_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->Attempt();
  });
}

void Dialer::AbortAttempt() {
  // Cancels async_connect, whose handler tries again. A resolver can't be hurried: it has its own time limit.
  cause_ = "no answer";
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Dialer::Stop() {
  stopped_ = true;
  on_socket_ = {};
  pause_.cancel();
  resolver_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace hp

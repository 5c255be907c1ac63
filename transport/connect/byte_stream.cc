#include "transport/connect/byte_stream.h"

#include <boost/asio/post.hpp>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

Status SocketError(int error) { return Unavailable("%s", std::strerror(error)); }

}  // namespace

ByteStream::ReadResult ByteStream::Read(std::span<const iovec> to) {
  while (true) {
    const ssize_t got = to.size() == 1 ? recv(fd(), to[0].iov_base, to[0].iov_len, MSG_DONTWAIT)
                                       : readv(fd(), to.data(), static_cast<int>(to.size()));
    if (got > 0) return {.bytes = static_cast<size_t>(got), .arrived = static_cast<size_t>(got)};
    if (got == 0) return {.state = State::kEnd};
    if (errno == EAGAIN) return {};
    if (errno != EINTR) return {.state = State::kFailed, .status = SocketError(errno)};
  }
}

ByteStream::WriteResult ByteStream::Write(std::span<const iovec> from) {
  if (from.empty()) return {};
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = from.size();
  size_t wanted = 0;
  for (const iovec& range : from) wanted += range.iov_len;
  while (true) {
    const ssize_t sent = sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {.bytes = static_cast<size_t>(sent), .blocked = static_cast<size_t>(sent) < wanted};
    if (errno == EAGAIN) return {.blocked = true};
    if (errno != EINTR) return {.state = State::kFailed, .status = SocketError(errno)};
  }
}

void ByteStream::ReadAll(std::span<std::byte> to, Done done) {
  if (!to.empty() && !readable()) return WaitToRead(to, 0, std::move(done));
  boost::asio::post(socket_.get_executor(), [this, to, done = std::move(done)] { ContinueRead(to, 0, done); });
}

void ByteStream::WaitToRead(std::span<std::byte> rest, size_t done_bytes, Done done) {
  const auto what = wants_write() ? TcpSocket::wait_write : TcpSocket::wait_read;
  socket_.async_wait(what, [=, this, done = std::move(done)](const boost::system::error_code& error) {
    if (error) {
      return done({.state = State::kFailed, .bytes = done_bytes, .status = Unavailable("%s", error.message().c_str())});
    }
    ContinueRead(rest, done_bytes, done);
  });
}

void ByteStream::ContinueRead(std::span<std::byte> rest, size_t done_bytes, Done done) {
  ReadResult result;
  if (!rest.empty()) {
    const iovec range = {rest.data(), rest.size()};
    result = Read({&range, 1});
  }
  rest = rest.subspan(result.bytes);
  result.bytes = done_bytes += result.bytes;
  if (result.state == State::kOk && !rest.empty()) return WaitToRead(rest, done_bytes, std::move(done));
  done(result);
}

void ByteStream::WriteAll(std::span<const std::byte> from, Done done) {
  boost::asio::post(socket_.get_executor(), [this, from, done = std::move(done)] { ContinueWrite(from, 0, done); });
}

void ByteStream::ContinueWrite(std::span<const std::byte> rest, size_t done_bytes, Done done) {
  const iovec range = {const_cast<std::byte*>(rest.data()), rest.size()};
  const WriteResult result = Write({&range, rest.empty() ? size_t{0} : size_t{1}});
  rest = rest.subspan(result.bytes);
  done_bytes += result.bytes;
  if (result.state != State::kOk || (rest.empty() && !result.blocked)) {
    return done({.state = result.state, .bytes = done_bytes, .status = result.status});
  }
  const auto what = result.blocked ? TcpSocket::wait_write : TcpSocket::wait_read;
  socket_.async_wait(what, [=, this, done = std::move(done)](const boost::system::error_code& error) {
    if (error) {
      return done({.state = State::kFailed, .bytes = done_bytes, .status = Unavailable("%s", error.message().c_str())});
    }
    ContinueWrite(rest, done_bytes, done);
  });
}

void ByteStream::Close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace hp

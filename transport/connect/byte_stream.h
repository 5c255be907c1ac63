#pragma once

#include "hp/status.h"
#include "transport/connect/socket.h"

#include <sys/uio.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace hp {

/// The bytes of one TCP connection, both ways: this class sends them as they are, TlsStream (tls.h) encrypts them.
/// Reads and writes never block. Made and destroyed by the progress thread, which also closes it; one thread at a time
/// reads, one at a time writes; see encrypted().
class ByteStream {
 public:
  /// @param socket connected and configured (socket.h).
  explicit ByteStream(TcpSocket socket) : socket_(std::move(socket)) {}
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  enum class State {
    kOk,
    kEnd,     ///< the peer has ended the stream
    kFailed,  ///< `status` says why: kUnavailable: the connection broke; kFailedPrecondition: the peer has no key for
              ///< it
  };
  struct ReadResult {
    State state = State::kOk;
    size_t bytes = 0;    ///< read into the caller's memory; an end or a failure behind them shows in the next call
    size_t arrived = 0;  ///< that came over the network, whatever became of them: the peer lives
    Status status = {};
  };
  /// Reads what is there into the ranges, one after the other. Fewer bytes than they have room for: nothing more can be
  /// read without waiting.
  /// @param to at most kMaxRanges, none empty.
  virtual ReadResult Read(std::span<const iovec> to);
  static constexpr size_t kMaxRanges = 3;

  struct WriteResult {
    State state = State::kOk;
    size_t bytes = 0;      ///< taken from the caller, who may change them now
    bool blocked = false;  ///< the socket is full: call again when it is writable
    Status status = {};
  };
  /// Sends from the ranges, one after the other, as much as the socket takes. With none: what was taken and is held
  /// back, if `blocked` was set.
  virtual WriteResult Write(std::span<const iovec> from);

  /// Whether bytes pass through TLS: then only the progress thread may write, as well as read, and a read is a copy and
  /// no system call.
  virtual bool encrypted() const { return false; }

  /// Called with kOk and all bytes, or with what came until the end or the failure. On the thread of the socket's
  /// io_context, never from within ReadAll or WriteAll. If the stream is closed first it is called with kFailed.
  using Done = std::function<void(const ReadResult& result)>;
  /// Reads until `to` is full. `to` and the stream must live until `done` is called; one at a time.
  void ReadAll(std::span<std::byte> to, Done done);
  /// Writes all of `from`, which must live until `done` is called, as the stream; one at a time. ReadResult::bytes
  /// counts what was written.
  void WriteAll(std::span<const std::byte> from, Done done);

  /// No read or write succeeds any more; operations that wait end.
  void Close();
  TcpSocket& socket() { return socket_; }

 protected:
  int fd() { return socket_.native_handle(); }
  /// Whether Read may have bytes without any more arriving, so that nobody should wait for the socket.
  virtual bool readable() const { return false; }
  /// Whether the stream has to write before it can go on.
  virtual bool wants_write() const { return false; }

 private:
  void ContinueRead(std::span<std::byte> rest, size_t done_bytes, Done done);
  void ContinueWrite(std::span<const std::byte> rest, size_t done_bytes, Done done);
  void WaitToRead(std::span<std::byte> rest, size_t done_bytes, Done done);

  TcpSocket socket_;
};

}  // namespace hp

#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "transport/connect/byte_stream.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace hp {

/// The frames that one endpoint has to send. Control frames go ahead of DATA frames at frame boundaries and keep their
/// own order; writes go one after the other. Any thread pushes and calls Flush; one thread at a time sends, without the
/// lock, so a push never waits for a system call; with TLS only the progress thread calls Flush. Nothing blocks but
/// Close.
class SendQueue {
 public:
  /// @param stream outlives it; its owner closes it after Close. @param clock of last_sent_ns; outlives it.
  SendQueue(ByteStream* stream, const Clock* clock) : stream_(*stream), clock_(clock) {}

  /// Queues a control frame without payload (GRANT, CANCEL).
  void PushControl(const FrameHeader& header) HP_EXCLUDES(mutex_);
  /// Queues a message (copied), in fragments if it is large. @return kResourceExhausted: `most` bytes wait already.
  Status PushMessage(uint32_t type, std::span<const std::byte> bytes, size_t most) HP_EXCLUDES(mutex_);
  /// Queues a write. `source` is read by Flush and must stay unmodified until TakeEnded or Close returns its tag.
  void PushWrite(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) HP_EXCLUDES(mutex_);
  /// Queues END behind everything; when it is sent, the sending side of the socket is shut down. Push nothing later.
  void PushEnd() HP_EXCLUDES(mutex_);

  enum class Outcome {
    kIdle,     ///< everything is sent
    kMore,     ///< `budget` is used up; call again
    kBlocked,  ///< the socket is full: call Unblock and Flush when it is writable again
    kBusy,     ///< another thread is sending, and will send what was pushed
    kFailed,   ///< the socket failed: see error()
  };
  /// Sends about `budget` bytes at most. Any thread; never blocks.
  Outcome Flush(size_t budget) HP_EXCLUDES(mutex_);
  /// The socket is writable again.
  void Unblock() HP_EXCLUDES(mutex_);

  /// The writes whose last byte the stream has taken since the last call, in their order: their sources are free.
  std::vector<PlaceTag> TakeEnded() HP_EXCLUDES(mutex_);
  bool has_ended() const HP_EXCLUDES(mutex_);  ///< whether TakeEnded would return any
  bool end_sent() const HP_EXCLUDES(mutex_);   ///< whether the socket has taken END
  Status error() const HP_EXCLUDES(mutex_);    ///< what failed, or ok
  /// When the stream last took bytes; 0: never. A message that is pushed later goes behind them.
  int64_t last_sent_ns() const { return last_sent_ns_; }

  /// Ends all sending: shuts the socket down both ways and waits for the thread in Flush, if there is one. No source is
  /// read after it. @return the writes that were not sent completely.
  std::vector<PlaceTag> Close() HP_EXCLUDES(mutex_);

 private:
  struct Write {
    PlaceTag tag;
    RemoteGrant grant;
    std::span<const std::byte> source;
    size_t sent = 0;  // in whole frames
  };
  struct Frame {
    FrameHeaderBytes header;
    std::span<const std::byte> payload;
    bool last = false;  // of its write
    size_t sent = 0;    // of header and payload
    size_t size() const { return header.size() + payload.size(); }
  };
  static constexpr size_t kMaxFrames = 8;
  static constexpr size_t kMaxIov = 2 * kMaxFrames + 3;

  bool Assemble() HP_REQUIRES(mutex_);
  void AssembleControl() HP_REQUIRES(mutex_);
  void AssembleFrames() HP_REQUIRES(mutex_);
  void AddIov(std::span<const std::byte> bytes) HP_REQUIRES(mutex_);
  void AddFrame(const Frame& frame) HP_REQUIRES(mutex_);
  void Commit(size_t bytes) HP_REQUIRES(mutex_);
  void FinishFrame(const Frame& frame) HP_REQUIRES(mutex_);
  void AppendControl(const FrameHeader& header, std::span<const std::byte> payload) HP_REQUIRES(mutex_);
  Outcome SendAll(size_t budget) HP_REQUIRES(mutex_) HP_NO_THREAD_SAFETY_ANALYSIS;

  ByteStream& stream_;
  const Clock* const clock_;
  std::atomic<int64_t> last_sent_ns_ = 0;
  mutable Mutex mutex_;  // innermost
  CondVar idle_;
  bool sending_ HP_GUARDED_BY(mutex_) = false;
  bool blocked_ HP_GUARDED_BY(mutex_) = false;
  bool closed_ HP_GUARDED_BY(mutex_) = false;
  bool end_queued_ HP_GUARDED_BY(mutex_) = false;
  bool end_framed_ HP_GUARDED_BY(mutex_) = false;
  bool end_sent_ HP_GUARDED_BY(mutex_) = false;
  Status error_ HP_GUARDED_BY(mutex_);
  std::vector<std::byte> control_pending_ HP_GUARDED_BY(mutex_);
  std::deque<Write> writes_ HP_GUARDED_BY(mutex_);
  std::vector<PlaceTag> ended_ HP_GUARDED_BY(mutex_);

  // Of the thread that sends, which sets them under the lock and reads them without.
  std::vector<std::byte> control_out_;
  size_t control_sent_ = 0;
  std::array<Frame, kMaxFrames + 1> frames_;  // frames_[0]: the one that was sent in part, if any
  size_t first_frame_ = 1, end_frame_ = 1;    // 0: there is a frame sent in part
  std::array<iovec, kMaxIov> iov_;
  size_t iov_count_ = 0, iov_bytes_ = 0;
  bool held_back_ = false;  // the stream may have bytes that the socket did not take
};

}  // namespace hp

#pragma once

#include "transport/connect/byte_stream.h"
#include "transport/connect/progress.h"
#include "transport/connect/socket_link.h"
#include "transport/endpoint_core.h"
#include "transport/tcp/frame_receiver.h"
#include "transport/tcp/send_queue.h"
#include "transport/transport.h"

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hp {

/// The link to one peer over a TCP connection. A post queues its frame in the SendQueue; a small one is sent by the
/// posting thread itself, unless that is the progress thread, which sends what a handler posts when the handler
/// returns. Receiving (FrameReceiver), failures and all reports happen on the progress thread. Posts come from any
/// thread; all else is for the progress thread. PeerLink and SocketLink have the contracts.
class TcpEndpoint : public SocketLink,
                    public ProgressTask,
                    private FrameSink,
                    public std::enable_shared_from_this<TcpEndpoint> {
 public:
  /// @param stream past the handshake. @param name of the peer, for messages.
  TcpEndpoint(Rank peer, std::string name, std::unique_ptr<ByteStream> stream, const SocketLinkContext& context);

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(core_.mutex);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override
      HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(core_.mutex);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(core_.mutex);
  void Flush() override;
  void Shutdown() override HP_EXCLUDES(core_.mutex);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }
  int64_t LastSentNs() const override { return queue_.last_sent_ns(); }
  bool closed() const override { return core_.closed(); }

  void Open() override;
  void Abandon() override HP_EXCLUDES(core_.mutex);

  // ProgressTask
  void Run() override;
  bool Poll() override;
  void Sleep() override;

 private:
  /// Sends a post of `bytes` bytes now, or has the progress thread do it.
  void Posted(size_t bytes);
  /// Stops the send queue, closes the socket, then reports everything that is open and OnClosed.
  void Close(const Status& status) HP_EXCLUDES(core_.mutex);
  /// Closes with kCancelled when both ENDs and the peer's end of stream were seen.
  void CloseIfEnded();
  void OnEndOfStream();
  void ReportEndedWrites();
  void WaitForRead();
  void WaitForWrite();

  // FrameSink
  void OnBytes() override;
  Guess GuessWrite() override HP_EXCLUDES(core_.mutex);
  StatusOr<std::span<std::byte>> PlaceFor(const FrameHeader& header) override;
  Status OnFrame(const FrameHeader& header, std::span<const std::byte> message) override;
  Status OnGrant(const FrameHeader& header) HP_EXCLUDES(core_.mutex);
  Status OnData(const FrameHeader& header) HP_EXCLUDES(core_.mutex);
  Status OnCancel(const FrameHeader& header) HP_EXCLUDES(core_.mutex);
  Status OnEnd();

  const Rank peer_;
  const SocketLinkContext context_;
  const std::unique_ptr<ByteStream> stream_;
  SendQueue queue_;
  FrameReceiver receiver_;
  std::atomic<int64_t> last_heard_ns_ = 0;

  // Progress thread.
  bool waits_for_read_ = false;   // async_wait is pending
  bool waits_for_write_ = false;  // likewise
  bool stream_ended_ = false;     // by the peer
  size_t empty_messages_ = 0;     // since the last Poll began: heartbeats, which nothing follows

  EndpointCore core_;  // its lock before the queue's
};

}  // namespace hp

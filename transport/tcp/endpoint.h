#pragma once

#include "base/mutex.h"
#include "transport/connect/progress.h"
#include "transport/connect/socket.h"
#include "transport/connect/socket_link.h"
#include "transport/grants.h"
#include "transport/tcp/frame_receiver.h"
#include "transport/tcp/send_queue.h"
#include "transport/transport.h"

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hp {

/// The open connection to one peer. Posts from any thread; the rest on the progress thread.
class TcpEndpoint : public SocketLink,
                    public ProgressTask,
                    private FrameSink,
                    public std::enable_shared_from_this<TcpEndpoint> {
 public:
  /// @param socket connected, past the handshake. @param name of the peer, for messages.
  TcpEndpoint(Rank peer, std::string name, TcpSocket socket, const SocketLinkContext& context);

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(mutex_);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override HP_EXCLUDES(mutex_);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(mutex_);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(mutex_);
  void Shutdown() override HP_EXCLUDES(mutex_);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }
  bool closed() const override { return closed_; }

  void Open() override;
  void Abandon() override HP_EXCLUDES(mutex_);

  void Run() override;
  bool Poll() override;
  void Sleep() override;

 private:
  Status CheckOpen() const HP_REQUIRES(mutex_);
  void Posted(size_t bytes);
  void Close(const Status& status) HP_EXCLUDES(mutex_);
  void CloseIfEnded();
  void OnEndOfStream();
  void ReportEndedWrites();
  void WaitForRead();
  void WaitForWrite();

  void OnBytes() override;
  Guess GuessWrite() override HP_EXCLUDES(mutex_);
  StatusOr<std::span<std::byte>> PlaceFor(const FrameHeader& header) override;
  Status OnFrame(const FrameHeader& header, std::span<const std::byte> message) override;
  Status OnGrant(const FrameHeader& header) HP_EXCLUDES(mutex_);
  Status OnData(const FrameHeader& header) HP_EXCLUDES(mutex_);
  Status OnCancel(const FrameHeader& header) HP_EXCLUDES(mutex_);
  Status OnEnd();

  const Rank peer_;
  const std::string name_;
  const SocketLinkContext context_;
  TcpSocket socket_;
  SendQueue queue_;
  FrameReceiver receiver_;
  std::atomic<int64_t> last_heard_ns_ = 0;

  // Progress thread.
  bool waits_for_read_ = false;
  bool waits_for_write_ = false;
  bool end_came_ = false;  // the peer's END
  bool stream_ended_ = false;

  mutable Mutex mutex_;               // before the queue's
  std::atomic<bool> closed_ = false;  // set under mutex_
  bool ended_here_ HP_GUARDED_BY(mutex_) = false;
  GrantTable grants_ HP_GUARDED_BY(mutex_);
  RemoteGrantTable remote_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp

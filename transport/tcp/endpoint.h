#pragma once

#include "transport/connect/progress.h"
#include "transport/connect/socket.h"
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

/// The open connection to one peer. Posts from any thread; the rest on the progress thread.
class TcpEndpoint : public SocketLink,
                    public ProgressTask,
                    private FrameSink,
                    public std::enable_shared_from_this<TcpEndpoint> {
 public:
  /// @param socket connected, past the handshake. @param name of the peer, for messages.
  TcpEndpoint(Rank peer, std::string name, TcpSocket socket, const SocketLinkContext& context);

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(core_.mutex);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override
      HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(core_.mutex);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(core_.mutex);
  void Shutdown() override HP_EXCLUDES(core_.mutex);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }
  bool closed() const override { return core_.closed(); }

  void Open() override;
  void Abandon() override HP_EXCLUDES(core_.mutex);

  void Run() override;
  bool Poll() override;
  void Sleep() override;

 private:
  void Posted(size_t bytes);
  void Close(const Status& status) HP_EXCLUDES(core_.mutex);
  void CloseIfEnded();
  void OnEndOfStream();
  void ReportEndedWrites();
  void WaitForRead();
  void WaitForWrite();

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
  TcpSocket socket_;
  SendQueue queue_;
  FrameReceiver receiver_;
  std::atomic<int64_t> last_heard_ns_ = 0;

  // Progress thread.
  bool waits_for_read_ = false;
  bool waits_for_write_ = false;
  bool stream_ended_ = false;

  EndpointCore core_;  // its lock before the queue's
};

}  // namespace hp

#pragma once

#include "transport/connect/progress.h"
#include "transport/endpoint_core.h"
#include "transport/verbs/cm_connector.h"
#include "transport/verbs/control_sender.h"
#include "transport/verbs/cq_user.h"
#include "transport/verbs/device.h"
#include "transport/verbs/flush.h"
#include "transport/verbs/landing_table.h"
#include "transport/verbs/lifeline.h"
#include "transport/verbs/link.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/write_sender.h"

#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// The link to one peer over queue pairs: one for control frames, one or more for writes, with a completion queue of
/// their own. Posts come from any thread and may post work requests themselves; completions, failures and all reports
/// are for the progress thread. PeerLink, VerbsLink and CqUser have the contracts; README.md of this folder the design.
///
/// Life: Create -> OwnSetup -> Connect -> Open -> Close. A failure closes it once its best-known cause is reported;
/// queue pairs are destroyed and the keys of places are void before any grant or write is reported.
class VerbsEndpoint : public VerbsLink, public CqUser {
 public:
  /// What it shares with other endpoints of the transport.
  struct Parts {
    VerbsContext context;
    std::shared_ptr<VerbsDevice> device;
    std::shared_ptr<VerbsMemory> memory;
    std::shared_ptr<VerbsFlush> flush;
  };
  /// Makes the queue pairs, not connected yet. @param name of the peer, for messages. @param epoch number of this
  /// connection, unique in the transport: registrations of places belong to it.
  /// @return kFailedPrecondition, kResourceExhausted: the device does not provide what is needed.
  static StatusOr<std::shared_ptr<VerbsEndpoint>> Create(Rank peer, const std::string& name, uint32_t epoch,
                                                         Parts parts);
  ~VerbsEndpoint() override;

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(core_.mutex);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override
      HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(core_.mutex);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(core_.mutex);
  void Flush() override HP_EXCLUDES(core_.mutex);
  void Shutdown() override HP_EXCLUDES(core_.mutex);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }
  int64_t LastSentNs() const override { return last_sent_ns_; }
  bool closed() const override { return core_.closed(); }
  void Abandon() override HP_EXCLUDES(core_.mutex);

  // VerbsLink
  StatusOr<VerbsSetup> OwnSetup() override;
  void Connect(const VerbsSetup& theirs, std::function<void(const Status&)> done) override HP_EXCLUDES(core_.mutex);
  void Open(std::unique_ptr<ByteStream> lifeline) override;

  // CqUser
  void Run() override HP_EXCLUDES(core_.mutex);
  bool Poll() override;
  void Sleep() override;
  void OnAsyncError(const std::string& what, Cause cause) override;

 private:
  /// A place whose bytes are all there.
  struct Incoming {
    OpenGrant grant;
    Landing landing;
  };

  static constexpr uint32_t kControlQp = 0;  // id of the control queue pair; data queue pair i has 1 + i

  VerbsEndpoint(Rank peer, std::string name, uint32_t epoch, Parts parts);
  Status Prepare();
  /// How to reach the peer's port. @return kFailedPrecondition: the two set-ups do not fit together.
  StatusOr<Path> PathTo(const VerbsSetup& theirs);
  Status ConnectDirectly(const Path& path, const VerbsSetup& theirs);
  void ConnectByCm(const VerbsSetup& theirs, ibv_mtu mtu, std::function<void(const Status&)> done);
  /// Data queue pairs that a write of `bytes` bytes to us shall use.
  uint16_t PartsOf(size_t bytes) const;
  /// Sends what was posted, or has the progress thread do it.
  void Posted() HP_REQUIRES(core_.mutex);
  /// The same, of what goes over the control queue pair: a heartbeat would go behind it.
  void PostedControl() HP_REQUIRES(core_.mutex);
  /// Posts work requests for what is queued; queues END when all writes are done.
  Status Pump() HP_REQUIRES(core_.mutex);

  // Completions. A failure is only noted (Failed); ActOnFailure follows when the batch is done.

  /// Takes and handles one batch. @return the number of completions, or < 0: the queue failed.
  int PollOnce();
  void OnCompletion(const ibv_wc& completion);
  void OnSent(const ibv_wc& completion) HP_EXCLUDES(core_.mutex);
  void OnReceived(const ibv_wc& completion);
  Status OnControl(std::span<const std::byte> bytes);
  Status OnFrame(const FrameHeader& frame, std::span<const std::byte> payload);
  Status OnMessage(const FrameHeader& frame, std::span<const std::byte> payload);
  Status OnGrant(const FrameHeader& frame) HP_EXCLUDES(core_.mutex);
  Status OnCancel(const FrameHeader& frame) HP_EXCLUDES(core_.mutex);
  Status OnImmediate(uint32_t immediate, uint32_t qp_number) HP_EXCLUDES(core_.mutex);
  /// Reports complete places in the order of the writes, up to one that waits for its flush.
  void DeliverArrived() HP_EXCLUDES(core_.mutex);
  /// @return whether it was delivered; else it waits for its flush.
  bool Deliver(Incoming incoming);
  /// Delivers flushing_, or fails with it.
  void OnFlushed(const Status& status);
  std::string DescribeError(const ibv_wc& completion) HP_EXCLUDES(core_.mutex);

  /// Keeps `status` in failure_ unless an earlier one says as much about the cause.
  void Failed(const Status& status, Cause cause = Cause::kError);
  /// Closes with failure_, if there is one; a mere symptom first waits for a better one (AwaitCause).
  void ActOnFailure();
  void AwaitCause();
  void OnCmEnded(const std::string& what) HP_EXCLUDES(core_.mutex);
  void OnLifeline(Lifeline::Event event, const std::string& reason);
  /// Closes with kCancelled when both ENDs were seen and ours is known to have arrived.
  void CloseIfEnded() HP_EXCLUDES(core_.mutex);
  /// The same, and with kUnavailable when the peer's TCP connection has ended and nothing more can come.
  void CloseIfOver() HP_EXCLUDES(core_.mutex);
  /// Destroys the queue pairs, then reports everything that is open and OnClosed.
  void Close(const Status& status) HP_EXCLUDES(core_.mutex);
  /// After closed_: nothing arrives and nothing is sent any more.
  void Destroy() HP_EXCLUDES(core_.mutex);

  const Rank peer_;
  const uint32_t epoch_;
  const Parts parts_;
  std::atomic<int64_t> last_heard_ns_ = 0;
  std::atomic<int64_t> last_sent_ns_ = 0;  // a control frame was posted, or a write has arrived

  CqHandle cq_;
  std::unique_ptr<QueuePair> control_qp_;
  std::vector<std::unique_ptr<QueuePair>> data_qps_;
  GidEntry gid_;                     // that OwnSetup has told the peer
  std::shared_ptr<CmConnector> cm_;  // null: the nodes connect the queue pairs themselves
  // Set by Connect, ahead of all posts, which may not look at queue pairs without the lock.
  size_t lanes_ = 1;           // data queue pairs in use
  uint32_t inline_bytes_ = 0;  // the most bytes of an inline request

  // Progress thread.
  std::unique_ptr<Lifeline> lifeline_;
  bool last_came_ = false;  // the peer has seen our END, and all that it sent was taken
  bool lifeline_ended_ = false;
  Status failure_;
  Cause failure_cause_ = Cause::kSymptom;
  std::optional<boost::asio::steady_timer> cause_wait_;  // since the first symptom
  bool cause_waited_ = false;
  std::vector<std::byte> message_;  // fragments so far
  bool in_message_ = false;
  uint32_t message_type_ = 0;
  std::optional<Incoming> flushing_;  // complete, but its flush is not, or the GPU can't have it

  EndpointCore core_;
  bool end_pushed_ HP_GUARDED_BY(core_.mutex) = false;
  Status post_failure_ HP_GUARDED_BY(core_.mutex);  // of a posting thread, for the progress thread
  std::unique_ptr<ControlSender> control_ HP_GUARDED_BY(core_.mutex);
  std::unique_ptr<WriteSender> writes_ HP_GUARDED_BY(core_.mutex);
  LandingTable landings_ HP_GUARDED_BY(core_.mutex);
};

}  // namespace hp

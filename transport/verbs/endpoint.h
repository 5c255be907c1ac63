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

/// The queue pairs towards one peer, and what goes over them. Posts from any thread; the rest on the progress thread.
class VerbsEndpoint : public VerbsLink, public CqUser {
 public:
  struct Parts {
    VerbsContext context;
    std::shared_ptr<VerbsDevice> device;
    std::shared_ptr<VerbsMemory> memory;
    std::shared_ptr<VerbsFlush> flush;
  };
  /// @param name of the peer, for messages. @param epoch counts the connections of this transport: grants and
  /// registrations belong to one.
  static StatusOr<std::shared_ptr<VerbsEndpoint>> Create(Rank peer, const std::string& name, uint32_t epoch,
                                                         Parts parts);
  ~VerbsEndpoint() override;

  Status Grant(const PlaceTag& tag, std::span<std::byte> place) override HP_EXCLUDES(core_.mutex);
  Status Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override
      HP_EXCLUDES(core_.mutex);
  Status CancelGrant(RemoteGrant grant) override HP_EXCLUDES(core_.mutex);
  Status Send(uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(core_.mutex);
  void Shutdown() override HP_EXCLUDES(core_.mutex);
  void Break(const Status& cause) override;
  int64_t LastHeardNs() const override { return last_heard_ns_; }
  bool closed() const override { return core_.closed(); }
  void Abandon() override HP_EXCLUDES(core_.mutex);

  StatusOr<VerbsSetup> OwnSetup() override;
  void Connect(const VerbsSetup& theirs, std::function<void(const Status&)> done) override HP_EXCLUDES(core_.mutex);
  void Open(TcpSocket lifeline) override;

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
  StatusOr<Path> PathTo(const VerbsSetup& theirs);
  Status ConnectDirectly(const Path& path, const VerbsSetup& theirs);
  void ConnectByCm(const VerbsSetup& theirs, ibv_mtu mtu, std::function<void(const Status&)> done);
  uint16_t PartsOf(size_t bytes) const;
  /// Sends what was posted, or has the progress thread do it.
  void Posted() HP_REQUIRES(core_.mutex);
  Status Pump() HP_REQUIRES(core_.mutex);

  // Completions. Of the failures, the first that tells most is kept in failure_ and acted upon when the batch is done.
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
  void DeliverArrived() HP_EXCLUDES(core_.mutex);
  /// @return whether it was delivered; else it waits for its flush.
  bool Deliver(Incoming incoming);
  std::string DescribeError(const ibv_wc& completion) HP_EXCLUDES(core_.mutex);

  void Failed(const Status& status, Cause cause = Cause::kError);
  void ActOnFailure();
  void AwaitCause();
  void OnCmEnded(const std::string& what) HP_EXCLUDES(core_.mutex);
  void OnLifeline(Lifeline::Event event, const std::string& reason);
  void CloseIfEnded() HP_EXCLUDES(core_.mutex);
  void Close(const Status& status) HP_EXCLUDES(core_.mutex);
  /// After closed_: nothing arrives and nothing is sent any more.
  void Destroy() HP_EXCLUDES(core_.mutex);

  const Rank peer_;
  const uint32_t epoch_;
  const Parts parts_;
  std::atomic<int64_t> last_heard_ns_ = 0;

  CqHandle cq_;
  std::unique_ptr<QueuePair> control_qp_;
  std::vector<std::unique_ptr<QueuePair>> data_qps_;
  GidEntry gid_;
  std::shared_ptr<CmConnector> cm_;  // null: the nodes connect the queue pairs themselves
  // Set by Connect, ahead of all posts, which may not look at queue pairs without the lock.
  size_t lanes_ = 1;
  uint32_t inline_bytes_ = 0;

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
  std::optional<Incoming> flushing_;

  EndpointCore core_;
  bool end_pushed_ HP_GUARDED_BY(core_.mutex) = false;
  Status post_failure_ HP_GUARDED_BY(core_.mutex);
  std::unique_ptr<ControlSender> control_ HP_GUARDED_BY(core_.mutex);
  std::unique_ptr<WriteSender> writes_ HP_GUARDED_BY(core_.mutex);
  LandingTable landings_ HP_GUARDED_BY(core_.mutex);
};

}  // namespace hp

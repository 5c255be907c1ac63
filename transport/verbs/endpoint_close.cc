// How an endpoint fails and closes.
//
// A failure shows in several places at once, and most of them only say that something failed: flushed requests, a queue
// pair in error, a peer that disconnected. So a failure is not acted upon where it is found: Failed keeps the first one
// of those that say most (Cause), the rest of the completions is taken, and a mere symptom waits up to cause_wait_ms
// for the peer's reason (REFUSAL over the TCP connection) or an event of the device.
//
// Destroy stops all traffic before anything is reported: queue pairs to the error state, their completions taken (so
// that shared receive requests come back), queue pairs destroyed, keys of our places void. Only after that may a place
// be used again, since an RDMA WRITE that is still on its way meets neither queue pair nor key.
//
// Closing in order needs both ENDs and the knowledge that ours arrived: by its acknowledgement or by the peer's LAST,
// which travels over TCP because an acknowledgement may be lost when the peer destroys its queue pair first.
#include "transport/verbs/endpoint.h"
#include "transport/verbs/wc_text.h"
#include "transport/wire.h"

#include <cinttypes>
#include <utility>

namespace hp {

std::string VerbsEndpoint::DescribeError(const ibv_wc& completion) {
  const double silent_s = static_cast<double>(parts_.context.clock->NowNs() - last_heard_ns_) * 1e-9;
  std::string message;
  if (const uint32_t qp = QueuePair::IdOf(completion.wr_id); (completion.wr_id & ReceivePool::kMark) != 0) {
    message = " receive";
  } else if (qp == kControlQp) {
    message = " control";
  } else {
    MutexLock lock(&core_.mutex);
    const OutgoingWrite* write = writes_->Find(qp - kControlQp - 1, completion.wr_id);
    if (write != nullptr) message = Format(" msg %" PRIu64 " channel %u", write->tag.msg_id, write->tag.channel);
  }
  return Format("qp %#x peer %s%s: %s (vendor code %#x), %.1f s after it was last heard", completion.qp_num,
                core_.name().c_str(), message.c_str(), WcStatusText(completion.status), completion.vendor_err,
                silent_s);
}

void VerbsEndpoint::Failed(const Status& status, Cause cause) {
  if (!failure_.ok() && cause <= failure_cause_) return;
  failure_ = status;
  failure_cause_ = cause;
}

void VerbsEndpoint::ActOnFailure() {
  if (failure_.ok() || closed() || !lifeline_) return;  // before Open nobody knows of this connection
  // What came before it may say why: that comes first.
  while (PollOnce() > 0) {
  }
  if (failure_cause_ == Cause::kSymptom && !cause_waited_) return AwaitCause();
  Close(failure_);
}

void VerbsEndpoint::AwaitCause() {
  if (cause_wait_) return;
  cause_wait_.emplace(*parts_.context.progress->io(),
                      std::chrono::milliseconds(parts_.device->settings().cause_wait_ms));
  cause_wait_->async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = std::static_pointer_cast<VerbsEndpoint>(weak.lock());
    if (!self || error) return;
    self->cause_waited_ = true;
    self->ActOnFailure();
  });
}

void VerbsEndpoint::Break(const Status& cause) {
  if (closed()) return;
  Failed(cause.Prepend(core_.name()));
  ActOnFailure();
}

void VerbsEndpoint::OnAsyncError(const std::string& what, Cause cause) {
  if (closed()) return;
  Failed(Unavailable("%s: %s", core_.name().c_str(), what.c_str()), cause);
  ActOnFailure();
}

void VerbsEndpoint::OnCmEnded(const std::string& what) {
  if (closed()) return;
  while (lifeline_ && PollOnce() > 0) {
  }
  // A peer that closes in order disconnects its queue pairs, too, and has said LAST before: that is on its way.
  bool in_order;
  {
    MutexLock lock(&core_.mutex);
    in_order = core_.ended_there() && end_pushed_;
  }
  if (!in_order) Failed(Unavailable("%s: %s", core_.name().c_str(), what.c_str()), Cause::kSymptom);
  ActOnFailure();
  CloseIfEnded();
}

void VerbsEndpoint::OnLifeline(Lifeline::Event event, const std::string& reason) {
  if (closed()) return;
  // The peer said it after everything that it sent; its adapter is done with that, and ours has it.
  while (PollOnce() > 0) {
  }
  last_came_ |= event == Lifeline::Event::kLast;
  lifeline_ended_ |= event == Lifeline::Event::kEnd;
  if (event == Lifeline::Event::kFailed) {
    Failed(Unavailable("%s failed: %s", core_.name().c_str(), reason.c_str()), Cause::kHint);
  }
  ActOnFailure();
  CloseIfOver();
}

// What came in order and waits for its flush is delivered first.
void VerbsEndpoint::CloseIfOver() {
  CloseIfEnded();
  if (closed() || !lifeline_ended_ || (flushing_ && core_.ended_there())) return;
  Close(Unavailable("%s closed the connection without ending it", core_.name().c_str()));
}

void VerbsEndpoint::CloseIfEnded() {
  if (!core_.ended_there() || closed()) return;
  bool done;
  {
    MutexLock lock(&core_.mutex);
    done = end_pushed_ && (last_came_ || (writes_->idle() && control_->idle()));
  }
  if (!done || flushing_) return;
  lifeline_->SendLast();
  Close(Cancelled("%s ended the connection", core_.name().c_str()));
}

void VerbsEndpoint::Destroy() {
  cause_wait_.reset();
  // In this order: queue pairs in error take nothing and read nothing; destroyed ones can't be brought back; then the
  // memory is nobody's.
  control_qp_->Fail();
  for (const auto& qp : data_qps_) qp->Fail();
  ibv_wc completion;
  while (parts_.device->verbs()->PollCq(cq_.get(), 1, &completion) > 0) {
    if (!(completion.wr_id & ReceivePool::kMark)) continue;
    const bool control = completion.qp_num == control_qp_->address().number;
    (void)(control ? parts_.device->control_receives() : parts_.device->data_receives())->Recycle(completion.wr_id);
  }
  MutexLock lock(&core_.mutex);
  control_.reset();
  data_qps_.clear();
  control_qp_.reset();
  cq_.reset();
  if (cm_) cm_->Close();
  cm_.reset();
  parts_.memory->DropOwner(epoch_);
  lifeline_.reset();
}

void VerbsEndpoint::Close(const Status& status) {
  VLOG(1) << "closing " << core_.name() << ": " << status;
  {
    MutexLock lock(&core_.mutex);
    if (core_.Close() == EndpointCore::State::kClosed) return;
  }
  if (status.code() != StatusCode::kCancelled) lifeline_->SendFailed(status.message().substr(0, kMaxHelloBytes));
  Destroy();
  std::vector<Landing> landings;
  std::vector<PlaceTag> grants, writes;
  {
    MutexLock lock(&core_.mutex);
    landings = landings_.TakeAll();
    grants = core_.TakeGrants();
    writes = writes_->TakeAll();
  }
  if (flushing_) grants.insert(grants.begin(), std::exchange(flushing_, std::nullopt)->grant.tag);
  ReportClosed(parts_.context.handler, peer_, grants, writes, status);
}

void VerbsEndpoint::Abandon() {
  {
    MutexLock lock(&core_.mutex);
    if (core_.Close() == EndpointCore::State::kClosed) return;
  }
  if (control_qp_) Destroy();
  MutexLock lock(&core_.mutex);
  landings_.TakeAll();
  core_.TakeGrants();
  if (writes_) writes_->TakeAll();
  flushing_.reset();
}

}  // namespace hp

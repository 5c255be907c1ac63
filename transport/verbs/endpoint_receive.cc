// What an endpoint makes of its completions.
#include "transport/verbs/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr int kPollBatch = 64;

}  // namespace

void VerbsEndpoint::Run() {
  if (closed()) return;
  Status failed;
  {
    MutexLock lock(&core_.mutex);
    if (post_failure_.ok()) post_failure_ = Pump();
    failed = post_failure_;
  }
  if (!failed.ok()) Failed(failed, Cause::kSymptom);
  ActOnFailure();
  CloseIfEnded();
  if (!closed()) parts_.context.progress->Watch(shared_from_this());
}

bool VerbsEndpoint::Poll() {
  if (closed()) return false;
  const int count = PollOnce();
  if (count > 0 && !closed()) {
    MutexLock lock(&core_.mutex);
    if (post_failure_.ok()) post_failure_ = Pump();  // there may be room again
    if (!post_failure_.ok()) Failed(post_failure_, Cause::kSymptom);
  }
  ActOnFailure();
  CloseIfEnded();
  return count != 0;
}

void VerbsEndpoint::Sleep() {
  if (closed()) return;
  const int error = parts_.device->verbs()->ReqNotifyCq(cq_.get());
  if (error != 0)
    Failed(Unavailable("%s: no notification of completions: %s", core_.name().c_str(), std::strerror(error)));
  // What came before the queue was armed tells nobody.
  if (Poll() && !closed()) parts_.context.progress->Watch(shared_from_this());
}

/// @return completions taken, or -1.
int VerbsEndpoint::PollOnce() {
  ibv_wc completions[kPollBatch];
  const int count = parts_.device->verbs()->PollCq(cq_.get(), kPollBatch, completions);
  if (count < 0) Failed(Unavailable("%s: the completion queue failed", core_.name().c_str()));
  // Control passes bulk: what piled up while a handler was busy is mostly ends of writes.
  const auto is_control = [](const ibv_wc& completion) {
    return completion.status == IBV_WC_SUCCESS && (completion.wr_id & ReceivePool::kMark) != 0 &&
           completion.opcode == IBV_WC_RECV;
  };
  for (const bool control : {true, false}) {
    for (int i = 0; i < count; ++i) {
      if (is_control(completions[i]) == control) OnCompletion(completions[i]);
    }
  }
  return count;
}

void VerbsEndpoint::OnCompletion(const ibv_wc& completion) {
  // Of a completion in error nothing but status, id, queue pair and vendor's code is defined.
  if (completion.status != IBV_WC_SUCCESS) {
    Failed(Unavailable("%s", DescribeError(completion).c_str()),
           completion.status == IBV_WC_WR_FLUSH_ERR ? Cause::kSymptom : Cause::kError);
  } else if (completion.wr_id & ReceivePool::kMark) {
    OnReceived(completion);
  } else {
    OnSent(completion);
  }
}

void VerbsEndpoint::OnSent(const ibv_wc& completion) {
  std::vector<PlaceTag> ended;
  {
    MutexLock lock(&core_.mutex);
    const uint32_t qp = QueuePair::IdOf(completion.wr_id);
    if (qp == kControlQp) {
      control_->OnCompletion(completion.wr_id);
    } else {
      writes_->OnCompletion(qp - kControlQp - 1, completion.wr_id, &ended);
    }
  }
  if (!ended.empty()) last_sent_ns_ = parts_.context.clock->NowNs();  // and the peer has seen the immediates
  for (const PlaceTag& tag : ended) parts_.context.handler->OnWriteEnded(peer_, tag, OkStatus());
}

void VerbsEndpoint::OnReceived(const ibv_wc& completion) {
  last_heard_ns_ = parts_.context.clock->NowNs();
  const bool immediate = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  // By the queue pair, which the request was taken for, and not by what the peer made of it.
  const bool control = completion.qp_num == control_qp_->address().number;
  ReceivePool* const pool = control ? parts_.device->control_receives() : parts_.device->data_receives();
  Status status;
  if (immediate == control) {
    status = InvalidArgument("%s on a %s queue pair", immediate ? "an immediate" : "a message",
                             control ? "control" : "data");
  } else if (immediate) {
    status = OnImmediate(ntohl(completion.imm_data), completion.qp_num);
  } else {
    status = OnControl(pool->Buffer(completion.wr_id, completion.byte_len));
  }
  if (!status.ok()) Failed(ProtocolError(status).Prepend(core_.name()));
  const Status recycled = pool->Recycle(completion.wr_id);
  if (!recycled.ok()) Failed(recycled.Prepend(core_.name()));
}

Status VerbsEndpoint::OnControl(std::span<const std::byte> bytes) {
  do {
    std::span<const std::byte> payload;
    HP_ASSIGN_OR_RETURN(const FrameHeader frame, TakeControlFrame(&bytes, &payload));
    HP_RETURN_IF_ERROR(OnFrame(frame, payload));
  } while (!bytes.empty());
  return OkStatus();
}

Status VerbsEndpoint::OnFrame(const FrameHeader& frame, std::span<const std::byte> payload) {
  if (core_.ended_there()) return InvalidArgument("a frame after the end");
  if (in_message_ && (frame.type != FrameType::kMessage || frame.index != message_type_)) {
    return InvalidArgument("a frame of type %d within a message", static_cast<int>(frame.type));
  }
  switch (frame.type) {
    case FrameType::kMessage:
      return OnMessage(frame, payload);
    case FrameType::kGrant:
      return OnGrant(frame);
    case FrameType::kCancel:
      return OnCancel(frame);
    case FrameType::kEnd:
      core_.EndThere();
      return OkStatus();
    case FrameType::kData:
      break;
  }
  return InternalError("frame type %d", static_cast<int>(frame.type));
}

Status VerbsEndpoint::OnMessage(const FrameHeader& frame, std::span<const std::byte> payload) {
  if (!in_message_ && !frame.more) {
    parts_.context.handler->OnMessage(peer_, frame.index, payload);
    return OkStatus();
  }
  if (!in_message_) message_.clear();
  if (message_.size() + payload.size() > kMaxMessageBytes) {
    return InvalidArgument("a message of more than %zu bytes", kMaxMessageBytes);
  }
  message_.insert(message_.end(), payload.begin(), payload.end());
  message_type_ = frame.index;
  in_message_ = frame.more;
  if (!in_message_) parts_.context.handler->OnMessage(peer_, frame.index, message_);
  return OkStatus();
}

Status VerbsEndpoint::OnGrant(const FrameHeader& frame) {
  const PlaceTag tag{frame.msg_id, frame.channel};
  const RemoteGrant grant{frame.index, frame.generation};
  if (frame.parts < 1 || frame.parts > lanes_ || frame.index >= kMaxOpenGrants) {
    return InvalidArgument("grant %u over %d queue pairs", frame.index, frame.parts);
  }
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.AddGrant(tag, grant, frame.bytes, {frame.at, frame.rkey, frame.parts}));
  }
  parts_.context.handler->OnGranted(peer_, tag, grant, frame.bytes);
  return OkStatus();
}

Status VerbsEndpoint::OnCancel(const FrameHeader& frame) {
  PlaceTag tag;
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(landings_.Cancel({frame.index, frame.generation}));
    HP_ASSIGN_OR_RETURN(tag, core_.GrantCancelled({frame.index, frame.generation}));
  }
  parts_.context.handler->OnGrantEnded(peer_, tag, Cancelled("%s gave its grant back", core_.name().c_str()));
  return OkStatus();
}

Status VerbsEndpoint::OnImmediate(uint32_t immediate, uint32_t qp_number) {
  const auto lane = std::find_if(data_qps_.begin(), data_qps_.end(),
                                 [&](const auto& qp) { return qp->address().number == qp_number; });
  if (lane == data_qps_.end()) return InvalidArgument("an immediate on an unknown queue pair");
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(landings_.OnImmediate(immediate, static_cast<size_t>(lane - data_qps_.begin())));
  }
  DeliverArrived();
  return OkStatus();
}

void VerbsEndpoint::DeliverArrived() {
  while (!flushing_) {
    Incoming incoming;
    {
      MutexLock lock(&core_.mutex);
      std::optional<LandingTable::Arrived> arrived = landings_.TakeArrived();
      if (!arrived) return;
      incoming = {core_.grants().Close(arrived->grant), std::move(arrived->landing)};
    }
    if (!Deliver(std::move(incoming))) return;
  }
}

bool VerbsEndpoint::Deliver(Incoming incoming) {
  const OpenGrant grant = incoming.grant;
  if (incoming.landing.needs_flush() && !grant.place.empty()) {
    const auto region = incoming.landing.region;
    flushing_ = std::move(incoming);
    parts_.flush->Flush(
        region, grant.place.data(),
        [self = std::static_pointer_cast<VerbsEndpoint>(shared_from_this())](const Status& s) { self->OnFlushed(s); });
    return false;
  }
  if (incoming.landing.staging) {
    const Status copied =
        incoming.landing.region->Copy(grant.place.data(), incoming.landing.staging.get(), grant.place.size());
    if (!copied.ok()) {
      flushing_ = std::move(incoming);
      OnFlushed(copied);
      return false;
    }
  }
  parts_.context.handler->OnGrantEnded(peer_, grant.tag, OkStatus());
  return true;
}

// An error may come from within PollOnce, where it is only noted. Then flushing_ stays, so that nothing behind it is
// delivered ahead of the end.
void VerbsEndpoint::OnFlushed(const Status& status) {
  if (!flushing_) return;  // closed meanwhile
  if (!status.ok()) {
    Failed(Unavailable("%s: %s", core_.name().c_str(), status.message().c_str()));
    return parts_.context.progress->Schedule(shared_from_this());
  }
  const PlaceTag tag = std::exchange(flushing_, std::nullopt)->grant.tag;
  parts_.context.handler->OnGrantEnded(peer_, tag, OkStatus());
  DeliverArrived();
  CloseIfOver();
}

}  // namespace hp

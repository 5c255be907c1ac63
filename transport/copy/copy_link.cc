// A grant by copy is a message with (region, offset); a write is a copy in the node's copy queue, after which ARRIVED
// is sent. Whether a pair copies is found out by trying: each side copies into the other's probe and answers. To close,
// a last job goes through the copy queue (Leave): behind it no copy to this peer is pending, its regions are closed,
// and only then is the end reported or the connection beneath shut down.
#include "transport/copy/copy_link.h"

#include <utility>
#include <vector>

namespace hp {
namespace {

/// Bytes that the processors copy, in up to 60 us, on the thread that posts the write: to wake another takes some 25 us
/// of its time. Who posts may hold a lock that others want, so longer copies are left to the copy queue's thread.
constexpr size_t kMaxCopiedHere = 1 << 20;

}  // namespace

CopyLink::CopyLink(Rank peer, const CopyLinkContext& context)
    : peer_(peer), context_(context), core_("node " + std::to_string(peer)) {
  MutexLock lock(&core_.mutex);
  core_.Open();
}

// --- Posts

Status CopyLink::CheckOpen() const {
  MutexLock lock(&core_.mutex);
  return core_.CheckOpen();
}

bool CopyLink::copies() const {
  MutexLock lock(&core_.mutex);
  return copies_;
}

Status CopyLink::Send(CopyMessage type, const std::vector<std::byte>& body) {
  return context_.beneath->Send(peer_, static_cast<uint32_t>(type), body);
}

Status CopyLink::Grant(const PlaceTag& tag, const CopyMemory& memory, std::span<std::byte> place) {
  MutexLock lock(&core_.mutex);
  HP_RETURN_IF_ERROR(core_.CheckOpen());
  if (!exported_.contains(memory.region)) {
    HP_RETURN_IF_ERROR(
        Send(CopyMessage::kRegion, Encode(CopyRegion{memory.region, memory.bytes.size(), memory.handle})));
    exported_.insert(memory.region);
  }
  HP_ASSIGN_OR_RETURN(const RemoteGrant grant, core_.Grant(tag, place));
  const auto offset = static_cast<uint64_t>(place.data() - memory.bytes.data());
  const Status sent = Send(CopyMessage::kGrant, Encode(CopyGrant{grant, tag, memory.region, offset, place.size()}));
  if (!sent.ok()) core_.grants().Close(grant);
  return sent;
}

Status CopyLink::Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  const bool here = context_.copier->is_host() && source.size() <= kMaxCopiedHere;
  {
    MutexLock lock(&core_.mutex);
    HP_ASSIGN_OR_RETURN(const RemotePlace place, core_.UseGrant(tag, grant, source.size()));
    auto begin = [=, self = shared_from_this()] { return self->BeginWrite(place, source); };
    auto done = [=, self = shared_from_this()](const Status& status) { self->EndWrite(tag, grant, status); };
    here ? context_.queue->PushToRunHere(begin, done) : context_.queue->Push(begin, done);
  }
  if (here) context_.queue->RunHere();
  return OkStatus();
}

Status CopyLink::BeginWrite(const RemotePlace& place, std::span<const std::byte> source) {
  {
    MutexLock lock(&core_.mutex);
    if (closed()) return closed_status_;
  }
  HP_ASSIGN_OR_RETURN(std::byte* const region, regions_.Open(place.key, context_.copier));
  context_.copier->Copy(region + place.address, source.data(), source.size());
  return OkStatus();
}

void CopyLink::EndWrite(const PlaceTag& tag, RemoteGrant grant, const Status& status) {
  const Status failure = status.ok() && !closed() ? Send(CopyMessage::kArrived, Encode(grant)) : status;
  if (failure.ok()) context_.beneath->Flush(peer_);  // a handler may have more copies to make
  if (failure.code() == StatusCode::kInternal) context_.on_failure(failure);
  if (!failure.ok() && !closed()) context_.beneath->Break(peer_, failure.Prepend("a copy within the host"));
  context_.beneath->Defer(
      [self = shared_from_this(), tag, status] { self->context_.handler->OnWriteEnded(self->peer_, tag, status); });
}

Status CopyLink::CancelGrant(RemoteGrant grant) {
  Status sent;
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.ReturnGrant(grant));
    sent = Send(CopyMessage::kCancel, Encode(grant));
  }
  if (!sent.ok()) context_.beneath->Break(peer_, sent.Prepend("giving a grant back"));  // it is used up
  return OkStatus();
}

// --- The end

void CopyLink::Leave(std::function<void()> done) {
  context_.queue->Push([] { return OkStatus(); },
                       [self = shared_from_this(), done = std::move(done)](const Status&) {
                         self->regions_.Close(self->context_.copier);
                         done();
                       });
}

void CopyLink::Shutdown() {
  MutexLock lock(&core_.mutex);
  if (!core_.EndHere()) return;
  // Behind an ANSWER that is about to be sent.
  Leave([self = shared_from_this()] {
    self->context_.beneath->Defer([self] { self->context_.beneath->Shutdown(self->peer_); });
  });
}

void CopyLink::OnClosed(const Status& status) {
  MutexLock lock(&core_.mutex);
  if (core_.Close() == EndpointCore::State::kClosed) return;
  closed_status_ = status;
  Leave([self = shared_from_this(), status] {
    self->context_.beneath->Defer([self, status] { self->ReportClosed(status); });
  });
}

void CopyLink::ReportClosed(const Status& status) {
  std::vector<PlaceTag> grants;
  {
    MutexLock lock(&core_.mutex);
    grants = core_.TakeGrants();
  }
  reported_ = true;
  hp::ReportClosed(context_.handler, peer_, grants, {}, status);
}

void CopyLink::Abandon() {
  {
    MutexLock lock(&core_.mutex);
    core_.Close();
  }
  regions_.Close(context_.copier);
  CloseProbe();
}

// --- Events

void CopyLink::OnConnected() {
  // A connection that is closed already reports that by itself.
  (void)Send(CopyMessage::kOffer, Encode(context_.offer));
}

Status CopyLink::OnMessage(uint32_t type, std::span<const std::byte> bytes) {
  const auto message = static_cast<CopyMessage>(type);
  if (message == CopyMessage::kOffer) {
    HP_ASSIGN_OR_RETURN(const CopyOffer offer, DecodeOffer(bytes));
    return OnOffer(offer);
  }
  if (message == CopyMessage::kAnswer) return OnAnswer(DecodeText(bytes));
  if (!copies()) return InvalidArgument("message type %#x without an agreement to copy", type);
  switch (message) {
    case CopyMessage::kRegion: {
      HP_ASSIGN_OR_RETURN(const CopyRegion region, DecodeRegion(bytes));
      return regions_.Add(region);
    }
    case CopyMessage::kGrant: {
      HP_ASSIGN_OR_RETURN(const CopyGrant grant, DecodeGrant(bytes));
      return OnGrant(grant);
    }
    case CopyMessage::kArrived: {
      HP_ASSIGN_OR_RETURN(const RemoteGrant grant, DecodeSlot(bytes));
      return OnGrantOver(grant, OkStatus());
    }
    case CopyMessage::kCancel: {
      HP_ASSIGN_OR_RETURN(const RemoteGrant grant, DecodeSlot(bytes));
      return OnGrantOver(grant, Cancelled("%s gave its grant back", core_.name().c_str()));
    }
    default:
      return InvalidArgument("unknown message type %#x", type);
  }
}

Status CopyLink::OnGrant(const CopyGrant& grant) {
  HP_RETURN_IF_ERROR(regions_.Check(grant.region, grant.offset, grant.bytes));
  if (grant.grant.index >= kMaxOpenGrants) return InvalidArgument("a grant of index %u", grant.grant.index);
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(
        core_.AddGrant(grant.tag, grant.grant, grant.bytes, {.address = grant.offset, .key = grant.region}));
  }
  const RemoteGrant marked{grant.grant.index | kCopyGrantBit, grant.grant.generation};
  context_.handler->OnGranted(peer_, grant.tag, marked, grant.bytes);
  return OkStatus();
}

Status CopyLink::OnGrantOver(RemoteGrant grant, const Status& status) {
  PlaceTag tag;
  {
    MutexLock lock(&core_.mutex);
    HP_ASSIGN_OR_RETURN(tag, core_.GrantArrived(grant));
  }
  context_.handler->OnGrantEnded(peer_, tag, status);
  return OkStatus();
}

// --- Whether the pair copies

Status CopyLink::OnOffer(const CopyOffer& offer) {
  if (offer_) return InvalidArgument("a second OFFER");
  offer_ = offer;
  if (context_.offer.handle.empty()) {
    Answer(FailedPrecondition("%s", context_.offer.why_not.c_str()));
  } else if (offer.handle.empty()) {
    Answer(FailedPrecondition("%s", offer.why_not.c_str()));
  } else {
    Try(offer.handle);
  }
  return OkStatus();
}

void CopyLink::Try(const std::string& handle) {
  MutexLock lock(&core_.mutex);
  if (!core_.CheckOpen().ok()) return;  // we end: nothing of the peer is opened any more
  context_.queue->Push(
      [self = shared_from_this(), handle]() -> Status {
        DeviceCopier* const copier = self->context_.copier;
        HP_ASSIGN_OR_RETURN(self->probe_, copier->Open(handle, kCopyProbeBytes));
        copier->Copy(self->probe_, copier->probe().bytes.data(), kCopyProbeBytes);
        return OkStatus();
      },
      [self = shared_from_this()](const Status& status) {
        self->CloseProbe();
        self->context_.beneath->Defer([self, status] { self->Answer(status); });
      });
}

void CopyLink::CloseProbe() {
  if (probe_ != nullptr) context_.copier->Close(std::exchange(probe_, nullptr));
}

void CopyLink::Answer(const Status& why_not) {
  if (closed()) return;
  our_answer_ = why_not;
  (void)Send(CopyMessage::kAnswer, Encode(why_not.message()));  // as in OnConnected
  SettleIfDone();
}

Status CopyLink::OnAnswer(const std::string& why_not) {
  if (their_answer_) return InvalidArgument("a second ANSWER");
  their_answer_ = why_not.empty() ? OkStatus() : FailedPrecondition("%s", why_not.c_str());
  SettleIfDone();
  return OkStatus();
}

void CopyLink::SettleIfDone() {
  if (!our_answer_ || !their_answer_) return;
  CopyRoad road{offer_->device, our_answer_->ok() ? *their_answer_ : *our_answer_};
  {
    MutexLock lock(&core_.mutex);
    copies_ = road.why_not.ok();
  }
  context_.on_settled(peer_, road);
}

}  // namespace hp

#include "transport/inproc/endpoint.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace hp {

InprocEndpoint* InprocEndpoint::other() const { return link_->side(1 - side_); }

Status InprocEndpoint::CheckOpen() const {
  if (state_ == State::kOpen && !ended_here_) return OkStatus();
  return Unavailable("node %d is not connected", other()->address_);
}

bool InprocEndpoint::open() const {
  MutexLock lock(&mutex_);
  return state_ == State::kOpen;
}

bool InprocEndpoint::closed() const {
  MutexLock lock(&mutex_);
  return state_ == State::kClosed;
}

void InprocEndpoint::Deliver(Lane lane, Mailbox::Event event) {
  // The link lives as long as an event of it is queued.
  Mailbox::Event run = [this, link = link_->shared_from_this(), event = std::move(event)] {
    last_heard_ns_ = options_.clock->NowNs();
    event();
  };
  MutexLock lock(&lane_mutex_);
  int64_t due_ns = 0;
  if (options_.delay) {
    due_ns = Clock::Real()->NowNs() + options_.delay(other()->address_, address_, lane == Lane::kBulk);
    if (lane != Lane::kControl) due_ns = bulk_due_ns_ = std::max(due_ns, bulk_due_ns_);
    if (lane != Lane::kBulk) due_ns = control_due_ns_ = std::max(due_ns, control_due_ns_);
  }
  mailbox_->Post(due_ns, lane != Lane::kControl, std::move(run));
}

Status InprocEndpoint::Grant(const PlaceTag& tag, std::span<std::byte> place) {
  RemoteGrant grant;
  {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(CheckOpen());
    HP_ASSIGN_OR_RETURN(grant, grants_.Open(tag, place));
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kControl, [to, tag, grant, bytes = place.size()] { to->OnGranted(tag, grant, bytes); });
  return OkStatus();
}

Status InprocEndpoint::Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  uint64_t id = 0;
  {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(CheckOpen());
    const size_t bytes = source.size();
    HP_RETURN_IF_ERROR(remote_.Take(grant, &tag, &bytes).status());
    id = next_write_++;
    writes_[id] = tag;
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kBulk, [to, grant, source, id] { to->OnWrite(grant, source, id); });
  return OkStatus();
}

Status InprocEndpoint::CancelGrant(RemoteGrant grant) {
  {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(CheckOpen());
    HP_RETURN_IF_ERROR(remote_.Take(grant, nullptr, nullptr).status());
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kControl, [to, grant] { to->OnCancelled(grant); });
  return OkStatus();
}

Status InprocEndpoint::Send(uint32_t type, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxMessageBytes) {
    return InvalidArgument("a message of %zu bytes, at most %zu are allowed", bytes.size(), kMaxMessageBytes);
  }
  {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(CheckOpen());
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kControl,
              [to, type, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] { to->OnMessage(type, copy); });
  return OkStatus();
}

void InprocEndpoint::Shutdown() {
  {
    MutexLock lock(&mutex_);
    if (!CheckOpen().ok()) return;
    ended_here_ = true;
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kBoth, [to] { to->OnEnd(); });
  // The other side may have ended long ago; what closes us runs on our progress thread.
  mailbox_->Post(0, false, [this, link = link_->shared_from_this()] { CloseIfEnded(); });
}

void InprocEndpoint::Break(const Status& cause) { link_->Break(cause); }

void InprocEndpoint::Open(Rank peer, TransportHandler* handler) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kHandshake) return;
    state_ = State::kOpen;
    peer_ = peer;
    handler_ = handler;
  }
  handler->OnConnected(peer);
}

void InprocEndpoint::Close(const Status& status) {
  std::vector<OpenGrant> grants;
  std::map<uint64_t, PlaceTag> writes;
  {
    MutexLock lock(&mutex_);
    if (std::exchange(state_, State::kClosed) != State::kOpen) return;
    grants = grants_.CloseAll();
    writes.swap(writes_);
  }
  for (const OpenGrant& grant : grants) handler_->OnGrantEnded(peer_, grant.tag, status);
  for (const auto& [id, tag] : writes) handler_->OnWriteEnded(peer_, tag, status);
  handler_->OnClosed(peer_, status);
}

void InprocEndpoint::Abandon() {
  MutexLock lock(&mutex_);
  state_ = State::kClosed;
  grants_.CloseAll();
  writes_.clear();
}

void InprocEndpoint::OnGranted(const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kOpen) return;
    const Status added = remote_.Add(tag, grant, bytes);
    CHECK(added.ok()) << added;
  }
  handler_->OnGranted(peer_, tag, grant, bytes);
}

void InprocEndpoint::OnWrite(RemoteGrant grant, std::span<const std::byte> source, uint64_t id) {
  std::span<std::byte> place;
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kOpen) return;
    OpenGrant* open = grants_.Find(grant);
    CHECK(open != nullptr && open->place.size() == source.size()) << "a write without its grant";
    place = open->place;
  }
  if (!link_->Copy(source, place)) return;  // both sides are about to close and to report it
  PlaceTag tag;
  {
    MutexLock lock(&mutex_);
    tag = grants_.Close(grant).tag;
  }
  InprocEndpoint* writer = other();
  writer->Deliver(Lane::kControl, [writer, id] { writer->OnWriteDone(id); });
  handler_->OnGrantEnded(peer_, tag, OkStatus());
}

void InprocEndpoint::OnWriteDone(uint64_t id) {
  PlaceTag tag;
  {
    MutexLock lock(&mutex_);
    const auto it = writes_.find(id);
    if (it == writes_.end()) return;  // closed meanwhile, and reported then
    tag = it->second;
    writes_.erase(it);
  }
  handler_->OnWriteEnded(peer_, tag, OkStatus());
  CloseIfEnded();
}

void InprocEndpoint::OnCancelled(RemoteGrant grant) {
  PlaceTag tag;
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kOpen) return;
    tag = grants_.Close(grant).tag;
  }
  handler_->OnGrantEnded(peer_, tag, Cancelled("node %d gave its grant back", other()->address_));
}

void InprocEndpoint::OnMessage(uint32_t type, std::span<const std::byte> bytes) {
  if (open()) handler_->OnMessage(peer_, type, bytes);
}

void InprocEndpoint::OnEnd() {
  {
    MutexLock lock(&mutex_);
    ended_there_ = true;
  }
  if (peer_ >= kFirstClientRank) Shutdown();
  CloseIfEnded();
}

void InprocEndpoint::CloseIfEnded() {
  {
    MutexLock lock(&mutex_);
    // A write that is still on its way reads its source: it ends first.
    if (state_ != State::kOpen || !ended_here_ || !ended_there_ || !writes_.empty()) return;
  }
  Close(Cancelled("node %d ended the connection", other()->address_));
}

void InprocLink::Break(const Status& status) {
  {
    MutexLock lock(&copy_mutex_);
    if (std::exchange(broken_, true)) return;
  }
  for (InprocEndpoint& side : sides_) {
    side.Deliver(InprocEndpoint::Lane::kBoth, [&side, status] { side.Close(status); });
  }
}

bool InprocLink::Copy(std::span<const std::byte> source, std::span<std::byte> place) {
  MutexLock lock(&copy_mutex_);
  if (broken_) return false;
  if (!source.empty()) std::memcpy(place.data(), source.data(), source.size());
  return true;
}

}  // namespace hp

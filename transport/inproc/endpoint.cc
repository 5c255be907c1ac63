#include "transport/inproc/endpoint.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace hp {

InprocEndpoint* InprocEndpoint::other() const { return link_->side(1 - side_); }

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

void InprocEndpoint::DeliverControl(Mailbox::Event event) {
  last_sent_ns_ = options_.clock->NowNs();
  other()->Deliver(Lane::kControl, std::move(event));
}

Status InprocEndpoint::Grant(const PlaceTag& tag, std::span<std::byte> place) {
  RemoteGrant grant;
  {
    MutexLock lock(&core_.mutex);
    HP_ASSIGN_OR_RETURN(grant, core_.Grant(tag, place));
  }
  InprocEndpoint* to = other();
  DeliverControl([to, tag, grant, bytes = place.size()] { to->OnGranted(tag, grant, bytes); });
  return OkStatus();
}

Status InprocEndpoint::Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  uint64_t id = 0;
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.UseGrant(tag, grant, source.size()).status());
    id = next_write_++;
    writes_[id] = tag;
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kBulk, [to, grant, source, id] { to->OnWrite(grant, source, id); });
  return OkStatus();
}

Status InprocEndpoint::CancelGrant(RemoteGrant grant) {
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.ReturnGrant(grant));
  }
  InprocEndpoint* to = other();
  DeliverControl([to, grant] { to->OnCancelled(grant); });
  return OkStatus();
}

Status InprocEndpoint::Send(uint32_t type, std::span<const std::byte> bytes) {
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.CheckMessage(bytes.size()));
  }
  InprocEndpoint* to = other();
  DeliverControl([to, type, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] { to->OnMessage(type, copy); });
  return OkStatus();
}

void InprocEndpoint::Shutdown() {
  {
    MutexLock lock(&core_.mutex);
    if (!core_.EndHere()) return;
  }
  InprocEndpoint* to = other();
  to->Deliver(Lane::kBoth, [to] { to->OnEnd(); });
  // The other side may have ended long ago; what closes us runs on our progress thread.
  mailbox_->Post(0, false, [this, link = link_->shared_from_this()] { CloseIfEnded(); });
}

void InprocEndpoint::Break(const Status& cause) { link_->Break(cause); }

void InprocEndpoint::Open(Rank peer, TransportHandler* handler) {
  {
    MutexLock lock(&core_.mutex);
    if (!core_.Open()) return;
    peer_ = peer;
    handler_ = handler;
  }
  handler->OnConnected(peer);
}

void InprocEndpoint::Close(const Status& status) {
  std::vector<PlaceTag> grants, writes;
  {
    MutexLock lock(&core_.mutex);
    if (core_.Close() != EndpointCore::State::kOpen) return;
    grants = core_.TakeGrants();
    for (const auto& [id, tag] : std::exchange(writes_, {})) writes.push_back(tag);
  }
  ReportClosed(handler_, peer_, grants, writes, status);
}

void InprocEndpoint::Abandon() {
  MutexLock lock(&core_.mutex);
  core_.Close();
  core_.TakeGrants();
  writes_.clear();
}

void InprocEndpoint::OnGranted(const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  {
    MutexLock lock(&core_.mutex);
    if (!open()) return;
    const Status added = core_.AddGrant(tag, grant, bytes);
    CHECK(added.ok()) << added;
  }
  handler_->OnGranted(peer_, tag, grant, bytes);
}

void InprocEndpoint::OnWrite(RemoteGrant grant, std::span<const std::byte> source, uint64_t id) {
  std::span<std::byte> place;
  {
    MutexLock lock(&core_.mutex);
    if (!open()) return;
    const OpenGrant* const granted = core_.grants().Find(grant);
    CHECK(granted != nullptr && granted->place.size() == source.size()) << "a write without its grant";
    place = granted->place;
  }
  if (!link_->Copy(source, place)) return;  // both sides are about to close and to report it
  PlaceTag tag;
  {
    MutexLock lock(&core_.mutex);
    tag = *core_.GrantArrived(grant);
  }
  InprocEndpoint* writer = other();
  writer->Deliver(Lane::kControl, [writer, id] { writer->OnWriteDone(id); });
  handler_->OnGrantEnded(peer_, tag, OkStatus());
}

void InprocEndpoint::OnWriteDone(uint64_t id) {
  PlaceTag tag;
  {
    MutexLock lock(&core_.mutex);
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
    MutexLock lock(&core_.mutex);
    if (!open()) return;
    tag = *core_.GrantCancelled(grant);
  }
  handler_->OnGrantEnded(peer_, tag, Cancelled("%s gave its grant back", core_.name().c_str()));
}

void InprocEndpoint::OnMessage(uint32_t type, std::span<const std::byte> bytes) {
  if (open()) handler_->OnMessage(peer_, type, bytes);
}

void InprocEndpoint::OnEnd() {
  core_.EndThere();
  if (peer_ >= kFirstClientRank) Shutdown();
  CloseIfEnded();
}

void InprocEndpoint::CloseIfEnded() {
  {
    MutexLock lock(&core_.mutex);
    // A write that is still on its way reads its source: it ends first.
    if (!open() || !core_.ended_here() || !core_.ended_there() || !writes_.empty()) return;
  }
  Close(Cancelled("%s ended the connection", core_.name().c_str()));
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

// Why the state of an endpoint is apart from what carries its bytes.
//
// Four carriers (mailboxes, a socket, queue pairs, a GPU's copy engine) have the same states and the same two tables of
// grants, and differ in one thing: when a byte can't be read or written any more. So the core decides whether something
// may happen, and its endpoint makes it happen. Closing is cut in two for that: Close, after which nothing new begins,
// and TakeGrants, after the carrier has stopped, when places belong to their owner again and may be reported. The
// states are atomic so that each arriving frame and each look of the failure detector can ask without the lock; they
// are set under it, so that a post that saw kOpen is queued before the carrier is stopped.
#include "transport/endpoint_core.h"

namespace hp {

bool EndpointCore::Open() {
  if (closed()) return false;
  state_ = State::kOpen;
  return true;
}

EndpointCore::State EndpointCore::Close() { return state_.exchange(State::kClosed); }

bool EndpointCore::EndHere() {
  if (!CheckOpen().ok()) return false;
  ended_here_ = true;
  return true;
}

Status EndpointCore::CheckOpen() const {
  if (open() && !ended_here_) return OkStatus();
  return Unavailable("%s is not connected", name_.c_str());
}

StatusOr<RemoteGrant> EndpointCore::Grant(const PlaceTag& tag, std::span<std::byte> place) {
  HP_RETURN_IF_ERROR(CheckOpen());
  return grants_.Open(tag, place);
}

StatusOr<RemotePlace> EndpointCore::UseGrant(const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  HP_RETURN_IF_ERROR(CheckOpen());
  return remote_.Use(grant, tag, bytes);
}

Status EndpointCore::ReturnGrant(RemoteGrant grant) {
  HP_RETURN_IF_ERROR(CheckOpen());
  return remote_.Remove(grant);
}

Status EndpointCore::CheckMessage(size_t bytes) const {
  if (bytes <= kMaxMessageBytes) return CheckOpen();
  return InvalidArgument("a message of %zu bytes, at most %zu are allowed", bytes, kMaxMessageBytes);
}

Status EndpointCore::AddGrant(const PlaceTag& tag, RemoteGrant grant, uint64_t bytes, const RemotePlace& place) {
  return remote_.Add(tag, grant, bytes, place);
}

StatusOr<PlaceTag> EndpointCore::GrantArrived(RemoteGrant grant) {
  if (grants_.Find(grant) == nullptr) {
    return InvalidArgument("an end of grant %u.%u, not open", grant.index, grant.generation);
  }
  return grants_.Close(grant).tag;
}

StatusOr<PlaceTag> EndpointCore::GrantCancelled(RemoteGrant grant) {
  const OpenGrant* const open = grants_.Find(grant);
  if (open == nullptr || open->received != 0) {
    return InvalidArgument("a cancel of grant %u.%u, not open or written to", grant.index, grant.generation);
  }
  return grants_.Close(grant).tag;
}

std::vector<PlaceTag> EndpointCore::TakeGrants() {
  std::vector<PlaceTag> tags;
  for (const OpenGrant& grant : grants_.CloseAll()) tags.push_back(grant.tag);
  return tags;
}

void ReportClosed(TransportHandler* handler, Rank peer, const std::vector<PlaceTag>& grants,
                  const std::vector<PlaceTag>& writes, const Status& status) {
  // kCancelled says of a grant that the writer gave it up, and of a connection that both sides ended it.
  const Status ended = status.code() == StatusCode::kCancelled ? Unavailable("the connection ended") : status;
  for (const PlaceTag& tag : grants) handler->OnGrantEnded(peer, tag, ended);
  for (const PlaceTag& tag : writes) handler->OnWriteEnded(peer, tag, status);
  handler->OnClosed(peer, status);
}

}  // namespace hp

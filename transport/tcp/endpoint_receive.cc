// What an endpoint makes of the frames that arrive: each is checked against the grants before a byte of it is received.
#include "transport/tcp/endpoint.h"

#include <cinttypes>
#include <optional>

namespace hp {
namespace {

RemoteGrant GrantOf(const FrameHeader& header) { return {header.index, header.generation}; }

}  // namespace

void TcpEndpoint::OnBytes() { last_heard_ns_ = context_.clock->NowNs(); }

FrameSink::Guess TcpEndpoint::GuessWrite() {
  MutexLock lock(&core_.mutex);
  const std::optional<RemoteGrant> likely = core_.grants().Likely();
  if (!likely) return {};
  const OpenGrant* grant = core_.grants().Find(*likely);
  return {*likely, grant->received, grant->place.subspan(grant->received)};
}

StatusOr<std::span<std::byte>> TcpEndpoint::PlaceFor(const FrameHeader& header) {
  if (core_.ended_there()) return InvalidArgument("a frame after the end");
  MutexLock lock(&core_.mutex);
  const OpenGrant* grant = core_.grants().Find(GrantOf(header));
  if (grant == nullptr) return InvalidArgument("a write to grant %u.%u, not open", header.index, header.generation);
  const size_t size = grant->place.size(), received = grant->received;
  if (header.bytes != size || header.at != received || header.length > size - received ||
      (header.length == 0 && size != 0)) {
    return InvalidArgument("a write of %u bytes at %" PRIu64 " of %" PRIu64 " to a place with %zu of %zu bytes",
                           header.length, header.at, header.bytes, received, size);
  }
  core_.grants().Expect(GrantOf(header));
  return grant->place.subspan(received, header.length);
}

Status TcpEndpoint::OnFrame(const FrameHeader& header, std::span<const std::byte> message) {
  if (core_.ended_there()) return InvalidArgument("a frame after the end");
  switch (header.type) {
    case FrameType::kMessage:
      empty_messages_ += message.empty() ? 1 : 0;
      context_.handler->OnMessage(peer_, header.index, message);
      return OkStatus();
    case FrameType::kGrant:
      return OnGrant(header);
    case FrameType::kData:
      return OnData(header);
    case FrameType::kCancel:
      return OnCancel(header);
    case FrameType::kEnd:
      return OnEnd();
  }
  return InternalError("frame type %d", static_cast<int>(header.type));
}

Status TcpEndpoint::OnGrant(const FrameHeader& header) {
  const PlaceTag tag{header.msg_id, header.channel};
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.AddGrant(tag, GrantOf(header), header.bytes));
  }
  context_.handler->OnGranted(peer_, tag, GrantOf(header), header.bytes);
  return OkStatus();
}

Status TcpEndpoint::OnData(const FrameHeader& header) {
  PlaceTag tag;
  {
    MutexLock lock(&core_.mutex);
    OpenGrant* grant = core_.grants().Find(GrantOf(header));  // PlaceFor saw it open, and only we close it
    grant->received += header.length;
    if (grant->received < grant->place.size()) return OkStatus();
    HP_ASSIGN_OR_RETURN(tag, core_.GrantArrived(GrantOf(header)));
  }
  context_.handler->OnGrantEnded(peer_, tag, OkStatus());
  return OkStatus();
}

Status TcpEndpoint::OnCancel(const FrameHeader& header) {
  PlaceTag tag;
  {
    MutexLock lock(&core_.mutex);
    HP_ASSIGN_OR_RETURN(tag, core_.GrantCancelled(GrantOf(header)));
  }
  context_.handler->OnGrantEnded(peer_, tag, Cancelled("%s gave its grant back", core_.name().c_str()));
  return OkStatus();
}

Status TcpEndpoint::OnEnd() {
  core_.EndThere();
  if (peer_ >= kFirstClientRank) Shutdown();
  return OkStatus();
}

}  // namespace hp

#include "transport/tcp/endpoint.h"

#include <cinttypes>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace hp {
namespace {

// What a posting thread sends by itself; more would keep it from its work.
constexpr size_t kInlineBytes = 64 << 10;
// Between two looks at the other endpoints.
constexpr size_t kSendBudget = 1 << 20;
constexpr size_t kReceiveBudget = 512 << 10;

RemoteGrant GrantOf(const FrameHeader& header) { return {header.index, header.generation}; }

}  // namespace

TcpEndpoint::TcpEndpoint(Rank peer, std::string name, TcpSocket socket, const SocketLinkContext& context)
    : peer_(peer),
      context_(context),
      socket_(std::move(socket)),
      queue_(socket_.native_handle()),
      receiver_(socket_.native_handle(), this),
      core_(std::move(name)) {}

void TcpEndpoint::Posted(size_t bytes) {
  if (bytes <= kInlineBytes && !context_.progress->Inside()) {
    const SendQueue::Outcome outcome = queue_.Flush(kInlineBytes);
    const bool done = outcome == SendQueue::Outcome::kIdle || outcome == SendQueue::Outcome::kBusy;
    if (done && !queue_.has_ended()) return;
  }
  context_.progress->Schedule(shared_from_this());
}

Status TcpEndpoint::Grant(const PlaceTag& tag, std::span<std::byte> place) {
  {
    MutexLock lock(&core_.mutex);
    HP_ASSIGN_OR_RETURN(const RemoteGrant grant, core_.Grant(tag, place));
    queue_.PushControl({.type = FrameType::kGrant,
                        .index = grant.index,
                        .generation = grant.generation,
                        .msg_id = tag.msg_id,
                        .bytes = place.size(),
                        .channel = tag.channel});
  }
  Posted(0);
  return OkStatus();
}

Status TcpEndpoint::Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.UseGrant(tag, grant, source.size()).status());
    queue_.PushWrite(tag, grant, source);
  }
  Posted(source.size());
  return OkStatus();
}

Status TcpEndpoint::CancelGrant(RemoteGrant grant) {
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.ReturnGrant(grant));
    queue_.PushControl({.type = FrameType::kCancel, .index = grant.index, .generation = grant.generation});
  }
  Posted(0);
  return OkStatus();
}

Status TcpEndpoint::Send(uint32_t type, std::span<const std::byte> bytes) {
  {
    MutexLock lock(&core_.mutex);
    HP_RETURN_IF_ERROR(core_.CheckMessage(bytes.size()));
    HP_RETURN_IF_ERROR(queue_.PushMessage(type, bytes));
  }
  Posted(bytes.size());
  return OkStatus();
}

void TcpEndpoint::Shutdown() {
  {
    MutexLock lock(&core_.mutex);
    if (!core_.EndHere()) return;
    queue_.PushEnd();
  }
  context_.progress->Schedule(shared_from_this());
}

void TcpEndpoint::Break(const Status& cause) {
  Close(cause.Prepend(Format("the connection to %s broke", core_.name().c_str())));
}

void TcpEndpoint::Open() {
  last_heard_ns_ = context_.clock->NowNs();
  {
    MutexLock lock(&core_.mutex);
    core_.Open();
  }
  context_.handler->OnConnected(peer_);
  context_.progress->Watch(shared_from_this());
}

void TcpEndpoint::Run() {
  if (closed()) return;
  switch (queue_.Flush(kSendBudget)) {
    case SendQueue::Outcome::kIdle:
    case SendQueue::Outcome::kBusy:
      break;
    case SendQueue::Outcome::kMore:
      context_.progress->Schedule(shared_from_this());
      break;
    case SendQueue::Outcome::kBlocked:
      WaitForWrite();
      break;
    case SendQueue::Outcome::kFailed:
      // What the peer sent before it went may say why: that comes first, and then the same error.
      if (stream_ended_ || !Poll()) {
        Close(Unavailable("the connection to %s broke: %s", core_.name().c_str(), std::strerror(queue_.error())));
      } else {
        context_.progress->Schedule(shared_from_this());
      }
      return;
  }
  ReportEndedWrites();
  CloseIfEnded();
  if (!closed()) context_.progress->Watch(shared_from_this());
}

bool TcpEndpoint::Poll() {
  if (stream_ended_ || closed()) return false;
  const StatusOr<FrameReceiver::Result> result = receiver_.Receive(kReceiveBudget);
  if (!result.ok()) {
    Close(result.status().Prepend(Format("the connection to %s broke", core_.name().c_str())));
    return true;
  }
  if (result->outcome == FrameReceiver::Outcome::kEnd) OnEndOfStream();
  return result->bytes > 0 || result->outcome == FrameReceiver::Outcome::kEnd;
}

void TcpEndpoint::Sleep() {
  if (!stream_ended_ && !closed()) WaitForRead();
}

void TcpEndpoint::WaitForRead() {
  if (std::exchange(waits_for_read_, true)) return;
  socket_.async_wait(TcpSocket::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waits_for_read_ = false;
    if (!error) self->context_.progress->Watch(self);
  });
}

void TcpEndpoint::WaitForWrite() {
  if (std::exchange(waits_for_write_, true)) return;
  socket_.async_wait(TcpSocket::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waits_for_write_ = false;
    if (error) return;
    self->queue_.Unblock();
    self->Run();
  });
}

void TcpEndpoint::ReportEndedWrites() {
  for (const PlaceTag& tag : queue_.TakeEnded()) context_.handler->OnWriteEnded(peer_, tag, OkStatus());
}

void TcpEndpoint::OnEndOfStream() {
  stream_ended_ = true;
  if (core_.ended_there()) return CloseIfEnded();
  Close(Unavailable("%s closed the connection without ending it", core_.name().c_str()));
}

void TcpEndpoint::CloseIfEnded() {
  if (!stream_ended_ || !core_.ended_there() || !queue_.end_sent() || closed()) return;
  Close(Cancelled("%s ended the connection", core_.name().c_str()));
}

void TcpEndpoint::Close(const Status& status) {
  {
    MutexLock lock(&core_.mutex);
    if (core_.Close() == EndpointCore::State::kClosed) return;
  }
  const std::vector<PlaceTag> unsent = queue_.Close();
  boost::system::error_code ignored;
  socket_.close(ignored);
  std::vector<PlaceTag> grants;
  {
    MutexLock lock(&core_.mutex);
    grants = core_.TakeGrants();
  }
  ReportEndedWrites();
  ReportClosed(context_.handler, peer_, grants, unsent, status);
}

void TcpEndpoint::Abandon() {
  {
    MutexLock lock(&core_.mutex);
    core_.Close();
  }
  queue_.Close();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

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

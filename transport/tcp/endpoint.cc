#include "transport/tcp/endpoint.h"

#include <utility>
#include <vector>

namespace hp {
namespace {

// What a posting thread sends by itself; more would keep it from its work.
constexpr size_t kInlineBytes = 64 << 10;
// Between two looks at the other endpoints.
constexpr size_t kSendBudget = 1 << 20;
constexpr size_t kReceiveBudget = 512 << 10;

}  // namespace

TcpEndpoint::TcpEndpoint(Rank peer, std::string name, std::unique_ptr<ByteStream> stream,
                         const SocketLinkContext& context)
    : peer_(peer),
      context_(context),
      stream_(std::move(stream)),
      queue_(stream_.get(), context.clock),
      receiver_(stream_.get(), this),
      core_(std::move(name)) {}

void TcpEndpoint::Posted(size_t bytes) {
  if (bytes <= kInlineBytes && !stream_->encrypted() && !context_.progress->Inside()) {
    const SendQueue::Outcome outcome = queue_.Flush(kInlineBytes);
    const bool done = outcome == SendQueue::Outcome::kIdle || outcome == SendQueue::Outcome::kBusy;
    // END may have gone behind what was posted, and be all that the close waits for.
    if (done && !queue_.has_ended() && !queue_.end_sent()) return;
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
    const size_t most = peer_ >= kFirstClientRank ? kMaxQueuedForClient : kMaxQueuedBytes;
    HP_RETURN_IF_ERROR(core_.CheckMessage(bytes.size()));
    HP_RETURN_IF_ERROR(queue_.PushMessage(type, bytes, most));
  }
  Posted(bytes.size());
  return OkStatus();
}

// What it meets, Run, which the post has scheduled, meets again.
void TcpEndpoint::Flush() {
  if (context_.progress->Inside()) queue_.Flush(kInlineBytes);
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
        Close(Unavailable("the connection to %s broke: %s", core_.name().c_str(), queue_.error().message().c_str()));
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
  empty_messages_ = 0;
  const StatusOr<FrameReceiver::Result> result = receiver_.Receive(kReceiveBudget);
  if (!result.ok()) {
    Close(result.status().Prepend(Format("the connection to %s broke", core_.name().c_str())));
    return true;
  }
  if (result->outcome == FrameReceiver::Outcome::kEnd) OnEndOfStream();
  return result->bytes > empty_messages_ * kFrameHeaderBytes || result->outcome == FrameReceiver::Outcome::kEnd;
}

void TcpEndpoint::Sleep() {
  if (!stream_ended_ && !closed()) WaitForRead();
}

void TcpEndpoint::WaitForRead() {
  if (std::exchange(waits_for_read_, true)) return;
  stream_->socket().async_wait(TcpSocket::wait_read,
                               [self = shared_from_this()](const boost::system::error_code& error) {
                                 self->waits_for_read_ = false;
                                 if (!error) self->context_.progress->Look(self);
                               });
}

void TcpEndpoint::WaitForWrite() {
  if (std::exchange(waits_for_write_, true)) return;
  stream_->socket().async_wait(TcpSocket::wait_write,
                               [self = shared_from_this()](const boost::system::error_code& error) {
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
  stream_->Close();
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
  stream_->Close();
}

}  // namespace hp

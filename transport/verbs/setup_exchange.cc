// Both sides send SETUP at once. If both have RDMA each connects its queue pairs and sends UP with the result; a side
// whose peer has given up answers with its own UP at once. It ends when both results are known and all that we sent is
// handed to the kernel, so that the connection can go on with TCP frames.
#include "transport/verbs/setup_exchange.h"

#include "base/format.h"

#include <chrono>
#include <utility>

namespace hp {

SetupExchange::SetupExchange(std::unique_ptr<ByteStream> stream, VerbsSetup ours, int deadline_ms, Callbacks callbacks)
    : stream_(std::move(stream)),
      ours_(std::move(ours)),
      timer_(stream_->socket().get_executor()),
      deadline_ms_(deadline_ms),
      callbacks_(std::move(callbacks)) {}

void SetupExchange::Start() {
  timer_.expires_after(std::chrono::milliseconds(deadline_ms_));
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->Break(Format("it did not set RDMA up within %g s", self->deadline_ms_ / 1e3));
  });
  Read(RecordKind::kSetup);
  Send(RecordKind::kSetup, EncodeSetup(ours_));
}

void SetupExchange::Stop() {
  callbacks_ = {};
  timer_.cancel();
  stream_->Close();
}

void SetupExchange::Send(RecordKind kind, const std::string& body) {
  const PreambleBytes preamble = EncodePreamble({.kind = kind, .length = static_cast<uint32_t>(body.size())});
  const std::string record(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  waiting_ += record + body;
  if (out_.empty()) SendWaiting();
}

void SetupExchange::SendWaiting() {
  out_.swap(waiting_);
  stream_->WriteAll(std::as_bytes(std::span(out_)), [self = shared_from_this()](const ByteStream::ReadResult& result) {
    if (result.state != ByteStream::State::kOk) return self->Break(result.status.message());
    self->out_.clear();
    if (!self->waiting_.empty()) return self->SendWaiting();
    self->FinishIfSent();
  });
}

void SetupExchange::Read(RecordKind expected) {
  stream_->ReadAll(preamble_bytes_, [self = shared_from_this(), expected](const ByteStream::ReadResult& result) {
    if (result.state != ByteStream::State::kOk) {
      return self->Break("it closed the connection before RDMA was set up (does it run with another transport kind?)");
    }
    const StatusOr<Preamble> preamble = DecodePreamble(self->preamble_bytes_);
    if (!preamble.ok()) return self->Break(preamble.status().message());
    if (preamble->kind != expected) {
      return self->Break(Format("it sent an unexpected record of kind %d", static_cast<int>(preamble->kind)));
    }
    self->body_.resize(preamble->length);
    self->ReadBody(expected);
  });
}

void SetupExchange::ReadBody(RecordKind kind) {
  stream_->ReadAll(std::as_writable_bytes(std::span(body_)),
                   [self = shared_from_this(), kind](const ByteStream::ReadResult& result) {
                     if (result.state != ByteStream::State::kOk) {
                       return self->Break("it closed the connection while RDMA was set up");
                     }
                     self->OnRecord(kind);
                   });
}

void SetupExchange::OnRecord(RecordKind kind) {
  if (!callbacks_.done || finished_) return;
  kind == RecordKind::kSetup ? OnSetup() : OnUp();
}

void SetupExchange::OnSetup() {
  const StatusOr<VerbsSetup> theirs = DecodeSetup(body_);
  if (!theirs.ok()) return Break(theirs.status().message());
  if (!ours_.fault.empty()) return Finish(End::kNoVerbs, FailedPrecondition("on this side: %s", ours_.fault.c_str()));
  if (!theirs->fault.empty())
    return Finish(End::kNoVerbs, FailedPrecondition("on the other side: %s", theirs->fault.c_str()));
  Read(RecordKind::kUp);
  callbacks_.connect(*theirs, [weak = weak_from_this()](const Status& status) {
    if (const auto self = weak.lock()) self->OnConnected(status);
  });
}

void SetupExchange::OnConnected(const Status& status) {
  if (connected_ || !callbacks_.done) return;
  connected_ = status;
  Send(RecordKind::kUp, status.message());
  FinishIfBothSaid();
}

void SetupExchange::OnUp() {
  up_ = Printable(body_);
  // The other side has given up: what we still wait for will not come, and it waits for our UP.
  if (!up_->empty()) OnConnected(FailedPrecondition("on the other side: %s", up_->c_str()));
  FinishIfBothSaid();
}

void SetupExchange::FinishIfBothSaid() {
  if (!connected_ || !up_ || finished_) return;
  if (!connected_->ok()) return Finish(End::kNoVerbs, *connected_);
  if (!up_->empty()) return Finish(End::kNoVerbs, FailedPrecondition("on the other side: %s", up_->c_str()));
  Finish(End::kVerbs, OkStatus());
}

void SetupExchange::Finish(End end, const Status& status) {
  finished_ = true;
  result_ = {end, status};
  FinishIfSent();
}

void SetupExchange::FinishIfSent() {
  if (!finished_ || !out_.empty()) return;
  timer_.cancel();
  if (const auto done = std::exchange(callbacks_, {}).done) done(shared_from_this(), result_);
}

void SetupExchange::Break(const std::string& cause) {
  const auto done = std::exchange(callbacks_, {}).done;
  if (!done) return;  // it has ended, and the stream may be somebody else's
  timer_.cancel();
  stream_->Close();
  done(shared_from_this(), {End::kBroken, Unavailable("%s", cause.c_str())});
}

}  // namespace hp

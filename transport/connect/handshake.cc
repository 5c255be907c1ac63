#include "transport/connect/handshake.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr size_t kMaxRefusalBytes = kMaxHelloBytes / 2;  // its seal has to fit in, too

}  // namespace

Handshake::Handshake(std::unique_ptr<ByteStream> stream, bool accepted, int64_t deadline_ns,
                     std::unique_ptr<Proof> proof, Callbacks callbacks)
    : stream_(std::move(stream)),
      accepted_(accepted),
      address_(RemoteAddress(stream_->socket())),
      deadline_ns_(deadline_ns),
      proof_(std::move(proof)),
      callbacks_(std::move(callbacks)) {}

void Handshake::Start() {
  if (accepted_) return Read();
  if (proof_) return Send(RecordKind::kNonce, proof_->OwnNonce(), &Handshake::Read);
  SendHello("", &Handshake::Read);
}

void Handshake::SendHello(std::string_view to, Next next) {
  Send(RecordKind::kHello, Sealed(RecordKind::kHello, callbacks_.hello(to)), next);
}

std::string Handshake::Sealed(RecordKind kind, const std::string& body) const {
  return proof_ ? proof_->Seal(kind, body) : body;
}

bool Handshake::OpenBody() {
  if (!proof_) return true;
  StatusOr<std::string> body = proof_->Open(preamble_.kind, body_);
  if (!body.ok()) {
    Drop(body.status().message());
    return false;
  }
  body_ = *std::move(body);
  return true;
}

void Handshake::Drop(const std::string& reason) { Finish(End::kDropped, Unavailable("%s", reason.c_str())); }

void Handshake::Send(RecordKind kind, const std::string& body, Next next) {
  const PreambleBytes preamble = EncodePreamble({.kind = kind, .length = static_cast<uint32_t>(body.size())});
  out_.assign(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  out_ += body;
  stream_->WriteAll(std::as_bytes(std::span(out_)),
                    [self = shared_from_this(), next](const ByteStream::ReadResult& result) {
                      if (result.state != ByteStream::State::kOk) return self->Drop(result.status.message());
                      (self.get()->*next)();
                    });
}

void Handshake::Read() {
  stream_->ReadAll(preamble_bytes_, [self = shared_from_this()](const ByteStream::ReadResult& result) {
    if (result.state != ByteStream::State::kOk) return self->Drop(self->EndWithin(result));
    const StatusOr<Preamble> preamble = DecodePreamble(self->preamble_bytes_);
    if (!preamble.ok()) return self->Drop(preamble.status().message());
    self->ReadBody(*preamble);
  });
}

std::string Handshake::EndWithin(const ByteStream::ReadResult& result) const {
  if (result.status.code() == StatusCode::kFailedPrecondition) return result.status.message();
  if (result.bytes > 0) return "it closed the connection within its first record";
  if (!proof_ || !proof_->has_peer_nonce()) return "it closed the connection without sending anything";
  return "it closed the connection when it saw our proof: does it have the same --token_file?";
}

void Handshake::ReadBody(const Preamble& preamble) {
  preamble_ = preamble;
  body_.resize(preamble.length);
  stream_->ReadAll(std::as_writable_bytes(std::span(body_)),
                   [self = shared_from_this()](const ByteStream::ReadResult& result) {
                     if (result.state != ByteStream::State::kOk) {
                       return self->Drop("it closed the connection within its hello");
                     }
                     self->OnRecord();
                   });
}

void Handshake::OnRecord() {
  if (ended_) return;
  if (preamble_.kind == RecordKind::kNonce || (proof_ && !proof_->has_peer_nonce())) return OnNonce();
  if (preamble_.kind == RecordKind::kRefusal && (hello_came_ || !accepted_)) {
    if (!OpenBody()) return;
    return Finish(End::kRefusedUs, FailedPrecondition("%s", body_.c_str()));
  }
  if (preamble_.kind == RecordKind::kHello && !hello_came_) return OnHello();
  if (preamble_.kind == RecordKind::kReady && hello_came_) return FinishConnected();
  Drop(Format("it sent an unexpected record of kind %d", static_cast<int>(preamble_.kind)));
}

void Handshake::OnNonce() {
  if (!proof_) return Drop("it has a token, and this node was started without one (--token_file)");
  if (preamble_.kind != RecordKind::kNonce) return Drop("it has no token (--token_file)");
  if (const Status status = proof_->SetPeerNonce(body_); !status.ok()) return Drop(status.message());
  if (accepted_) return Send(RecordKind::kNonce, proof_->OwnNonce(), &Handshake::Read);
  SendHello("", &Handshake::Read);
}

void Handshake::OnHello() {
  if (!OpenBody()) return;
  hello_came_ = true;
  if (preamble_.version != kWireVersion) {
    return Refuse(
        FailedPrecondition("version %d of the connections' protocol here, %d there; install the same hpnode "
                           "everywhere",
                           kWireVersion, preamble_.version));
  }
  const StatusOr<Rank> rank = callbacks_.judge(body_, proof_.get());
  if (rank.status().code() == StatusCode::kUnavailable) return Drop(rank.status().message());
  if (!rank.ok()) return Refuse(rank.status());
  rank_ = *rank;
  if (accepted_) return SendHello(body_, &Handshake::Read);
  Send(RecordKind::kReady, "", &Handshake::FinishConnected);
}

void Handshake::Refuse(const Status& reason) {
  refusal_ = reason;
  Send(RecordKind::kRefusal, Sealed(RecordKind::kRefusal, reason.message().substr(0, kMaxRefusalBytes)),
       &Handshake::FinishRefused);
}

void Handshake::FinishRefused() { Finish(End::kRefused, refusal_); }

void Handshake::FinishConnected() { Finish(End::kConnected, OkStatus()); }

void Handshake::Finish(End end, const Status& status) {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  const auto done = std::exchange(callbacks_, {}).done;
  // A policy's refusal stands even when it could not be delivered.
  const bool refused = end == End::kDropped && !refusal_.ok();
  done(self, {refused ? End::kRefused : end, refused ? refusal_ : status, rank_});
  if (end == End::kConnected) return;
  stream_->Close();
}

}  // namespace hp

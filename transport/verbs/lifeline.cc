#include "transport/verbs/lifeline.h"

#include "base/format.h"

#include <utility>

namespace hp {

struct Lifeline::State {
  std::unique_ptr<ByteStream> stream;
  OnEvent on_event;  // empty: closed
  PreambleBytes bytes = {};
  std::string reason = {};
};

Lifeline::Lifeline(std::unique_ptr<ByteStream> stream, OnEvent on_event)
    : state_(std::make_shared<State>(State{std::move(stream), std::move(on_event)})) {
  Read(state_);
}

Lifeline::~Lifeline() {
  state_->on_event = {};
  state_->stream->Close();
}

void Lifeline::Read(const std::shared_ptr<State>& state) {
  state->stream->ReadAll(state->bytes, [state](const ByteStream::ReadResult& result) {
    const StatusOr<Preamble> preamble = DecodePreamble(state->bytes);
    if (result.state != ByteStream::State::kOk || !preamble.ok()) return Tell(state, Event::kEnd);
    if (preamble->kind == RecordKind::kRefusal) return ReadReason(state, preamble->length);
    if (preamble->kind != RecordKind::kLast) return Tell(state, Event::kEnd);
    Tell(state, Event::kLast);
    if (state->on_event) Read(state);
  });
}

void Lifeline::ReadReason(const std::shared_ptr<State>& state, size_t bytes) {
  state->reason.resize(bytes);
  state->stream->ReadAll(std::as_writable_bytes(std::span(state->reason)),
                         [state](const ByteStream::ReadResult& result) {
                           Tell(state, result.state == ByteStream::State::kOk ? Event::kFailed : Event::kEnd);
                         });
}

void Lifeline::Tell(const std::shared_ptr<State>& state, Event event) {
  const OnEvent on_event = state->on_event;  // the event may destroy the lifeline
  if (on_event) on_event(event, Printable(state->reason));
}

void Lifeline::Send(RecordKind kind, const std::string& body) {
  const PreambleBytes preamble = EncodePreamble({.kind = kind, .length = static_cast<uint32_t>(body.size())});
  const std::string record = std::string(reinterpret_cast<const char*>(preamble.data()), preamble.size()) + body;
  const iovec range = {const_cast<char*>(record.data()), record.size()};
  state_->stream->Write({&range, 1});  // a peer that is gone needs no record; a few bytes find room in a socket
}

}  // namespace hp

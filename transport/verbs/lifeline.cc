#include "transport/verbs/lifeline.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>

#include <utility>

namespace hp {

struct Lifeline::State {
  TcpSocket socket;
  OnEvent on_event;  // empty: closed
  PreambleBytes bytes = {};
  std::string reason = {};
};

Lifeline::Lifeline(TcpSocket socket, OnEvent on_event)
    : state_(std::make_shared<State>(State{std::move(socket), std::move(on_event)})) {
  Read(state_);
}

Lifeline::~Lifeline() {
  state_->on_event = {};
  boost::system::error_code ignored;
  state_->socket.close(ignored);
}

void Lifeline::Read(const std::shared_ptr<State>& state) {
  boost::asio::async_read(state->socket, boost::asio::buffer(state->bytes),
                          [state](const boost::system::error_code& error, size_t) {
                            const StatusOr<Preamble> preamble = DecodePreamble(state->bytes);
                            if (error || !preamble.ok()) return Tell(state, Event::kEnd);
                            if (preamble->kind == RecordKind::kRefusal) return ReadReason(state, preamble->length);
                            if (preamble->kind != RecordKind::kLast) return Tell(state, Event::kEnd);
                            Tell(state, Event::kLast);
                            if (state->on_event) Read(state);
                          });
}

void Lifeline::ReadReason(const std::shared_ptr<State>& state, size_t bytes) {
  state->reason.resize(bytes);
  boost::asio::async_read(
      state->socket, boost::asio::buffer(state->reason),
      [state](const boost::system::error_code& error, size_t) { Tell(state, error ? Event::kEnd : Event::kFailed); });
}

void Lifeline::Tell(const std::shared_ptr<State>& state, Event event) {
  const OnEvent on_event = state->on_event;  // the event may destroy the lifeline
  if (on_event) on_event(event, state->reason);
}

void Lifeline::Send(RecordKind kind, const std::string& body) {
  const PreambleBytes preamble = EncodePreamble({.kind = kind, .length = static_cast<uint32_t>(body.size())});
  const std::string record = std::string(reinterpret_cast<const char*>(preamble.data()), preamble.size()) + body;
  boost::system::error_code ignored;  // a peer that is gone needs no record; a few bytes find room in a socket
  state_->socket.send(boost::asio::buffer(record), MSG_NOSIGNAL, ignored);
}

}  // namespace hp

#include "transport/verbs/lifeline.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>

#include <utility>

namespace hp {

struct Lifeline::State {
  TcpSocket socket;
  OnEvent on_event;  // empty: closed
  PreambleBytes bytes = {};
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
                            if (!state->on_event) return;
                            const StatusOr<Preamble> preamble = DecodePreamble(state->bytes);
                            const bool last = !error && preamble.ok() && preamble->kind == RecordKind::kLast;
                            const OnEvent on_event = state->on_event;  // the event may destroy the lifeline
                            on_event(last ? Event::kLast : Event::kEnd);
                            if (last && state->on_event) Read(state);
                          });
}

void Lifeline::SendLast() {
  const PreambleBytes bytes = EncodePreamble({.kind = RecordKind::kLast});
  boost::system::error_code ignored;  // a peer that is gone needs no word
  state_->socket.send(boost::asio::buffer(bytes), MSG_NOSIGNAL, ignored);
}

}  // namespace hp

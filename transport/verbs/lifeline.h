#pragma once

#include "transport/tcp/socket.h"
#include "transport/wire.h"

#include <functional>
#include <memory>

namespace hp {

/// The connection over which two nodes met, kept while their queue pairs are in use: when a process goes, its end of
/// stream tells at once what queue pairs tell only after all retries. Carries nothing but one LAST record in each
/// direction. Progress thread.
class Lifeline {
 public:
  enum class Event {
    kLast,  ///< the peer has closed in order
    kEnd,   ///< end of stream, or something that has no place here
  };
  using OnEvent = std::function<void(Event)>;

  Lifeline(TcpSocket socket, OnEvent on_event);
  /// Closes; no event follows.
  ~Lifeline();
  void SendLast();

 private:
  struct State;
  static void Read(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace hp

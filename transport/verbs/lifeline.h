#pragma once

#include "transport/connect/socket.h"
#include "transport/wire.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// The connection over which two nodes met, kept while their queue pairs are in use: when a process goes, its end of
/// stream tells at once what queue pairs tell only after all retries. Carries one record in each direction:
/// LAST, or a REFUSAL that says why its side failed. Progress thread.
class Lifeline {
 public:
  enum class Event {
    kLast,    ///< the peer has closed in order
    kFailed,  ///< the peer's side failed, and says why
    kEnd,     ///< end of stream, or something that has no place here
  };
  using OnEvent = std::function<void(Event, const std::string& reason)>;

  Lifeline(TcpSocket socket, OnEvent on_event);
  /// Closes; no event follows.
  ~Lifeline();
  void SendLast() { Send(RecordKind::kLast, ""); }
  void SendFailed(const std::string& reason) { Send(RecordKind::kRefusal, reason); }

 private:
  struct State;
  static void Read(const std::shared_ptr<State>& state);
  static void ReadReason(const std::shared_ptr<State>& state, size_t bytes);
  static void Tell(const std::shared_ptr<State>& state, Event event);
  void Send(RecordKind kind, const std::string& body);
  const std::shared_ptr<State> state_;
};

}  // namespace hp

#pragma once

#include "transport/connect/byte_stream.h"
#include "transport/wire.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// The TCP connection over which two nodes met, kept while their queue pairs are in use: when a process ends, its end
/// of stream shows at once, while queue pairs notice only after all retries. It carries one record in each direction:
/// LAST, or a REFUSAL that says why the sender's endpoint failed. Progress thread; nothing blocks.
class Lifeline {
 public:
  enum class Event {
    kLast,    ///< LAST: the peer has seen our END, and all that it sent has arrived
    kFailed,  ///< REFUSAL: the peer's endpoint failed, with its reason
    kEnd,     ///< end of stream, an error, or any other record
  };
  /// Called for each event; may destroy the lifeline. @param reason with kFailed.
  using OnEvent = std::function<void(Event, const std::string& reason)>;

  /// Starts to read. @param stream past the set-up of RDMA.
  Lifeline(std::unique_ptr<ByteStream> stream, OnEvent on_event);
  /// Closes the connection; no event follows.
  ~Lifeline();
  // Each sends the record at once; a failure is ignored, since the peer then sees the end of the stream.
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

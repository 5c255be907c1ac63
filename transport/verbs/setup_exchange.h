#pragma once

#include "hp/status.h"
#include "transport/connect/byte_stream.h"
#include "transport/verbs/frames.h"
#include "transport/wire.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// The exchange by which two nodes set up RDMA over the TCP connection of their handshake: both send SETUP, connect
/// their queue pairs, and send UP. transport/README.md, "Bytes over RDMA", has the records. Hold it by shared_ptr:
/// pending operations keep it alive. Progress thread; nothing blocks.
class SetupExchange : public std::enable_shared_from_this<SetupExchange> {
 public:
  enum class End {
    kVerbs,    ///< both sides' queue pairs are connected
    kNoVerbs,  ///< one side cannot do RDMA; the TCP connection is intact and can be used
    kBroken,   ///< the TCP connection failed, the peer broke the protocol, or the deadline passed
  };
  struct Result {
    End end = End::kBroken;
    Status status;  ///< ok if and only if kVerbs; else which side failed and why
  };
  struct Callbacks {
    /// Connects our queue pairs to the peer's; called only if neither SETUP has a fault. Calls `connected` once, from
    /// within or later.
    std::function<void(const VerbsSetup& theirs, std::function<void(const Status&)> connected)> connect;
    /// Called exactly once, unless Stop comes first, when everything that we said is sent.
    std::function<void(const std::shared_ptr<SetupExchange>&, const Result&)> done;
  };

  /// @param stream past the handshake. @param ours our SETUP, with a fault if we have no RDMA. @param deadline_ms for
  /// all of it, from Start.
  SetupExchange(std::unique_ptr<ByteStream> stream, VerbsSetup ours, int deadline_ms, Callbacks callbacks);

  /// Sends SETUP and starts to read. Once.
  void Start();
  /// Closes the connection; no callback follows.
  void Stop();
  /// The connection, in `done` after kVerbs and kNoVerbs: the caller's.
  std::unique_ptr<ByteStream> TakeStream() { return std::move(stream_); }

 private:
  void Send(RecordKind kind, const std::string& body);
  void SendWaiting();
  void Read(RecordKind expected);
  void ReadBody(RecordKind kind);
  void OnRecord(RecordKind kind);
  void OnSetup();
  void OnUp();
  void OnConnected(const Status& status);
  void FinishIfBothSaid();
  /// Ends when everything we said is sent.
  void Finish(End end, const Status& status);
  void FinishIfSent();
  void Break(const std::string& cause);

  std::unique_ptr<ByteStream> stream_;  // until it is taken
  const VerbsSetup ours_;
  boost::asio::steady_timer timer_;
  const int deadline_ms_;
  Callbacks callbacks_;
  std::string out_;      // being sent
  std::string waiting_;  // to be sent behind it
  bool finished_ = false;
  Result result_;
  PreambleBytes preamble_bytes_;
  std::string body_;
  std::optional<Status> connected_;  // what our connect said
  std::optional<std::string> up_;    // the peer's UP
};

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "transport/connect/socket.h"
#include "transport/verbs/frames.h"
#include "transport/wire.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// How two nodes that have shaken hands set their queue pairs up over the same connection: both send SETUP, connect,
/// and say UP. transport/README.md has the bytes. Progress thread.
class SetupExchange : public std::enable_shared_from_this<SetupExchange> {
 public:
  enum class End {
    kVerbs,    ///< both are connected
    kNoVerbs,  ///< one side says that it can't; the connection is whole
    kBroken,   ///< the connection failed, or the peer was too slow
  };
  struct Result {
    End end = End::kBroken;
    Status status;  ///< not ok but with kVerbs
  };
  struct Callbacks {
    /// Calls `connected` once, before it returns or later.
    std::function<void(const VerbsSetup& theirs, std::function<void(const Status&)> connected)> connect;
    /// Called exactly once.
    std::function<void(const std::shared_ptr<SetupExchange>&, const Result&)> done;
  };

  SetupExchange(TcpSocket socket, VerbsSetup ours, int deadline_ms, Callbacks callbacks);

  void Start();
  /// Ends it without sending anything; no callback follows.
  void Stop();
  TcpSocket* socket() { return &socket_; }

 private:
  void Send(RecordKind kind, const std::string& body);
  void Read(RecordKind expected);
  void OnRecord(RecordKind kind);
  void OnSetup();
  void OnUp();
  void OnConnected(const Status& status);
  void FinishIfBothSaid();
  /// Ends when everything we said is sent.
  void Finish(End end, const Status& status);
  void FinishIfSent();
  void Break(const std::string& cause);

  TcpSocket socket_;
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

#pragma once

#include "transport/connect/socket.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <boost/asio/buffer.hpp>

#include <array>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// One connection before it is an endpoint: hellos are exchanged, and each side judges the other's.
/// transport/README.md, "Handshake", has the records and their order; nothing is sent to a peer that has not said a
/// well-formed hello. It sends and receives without blocking, keeps itself alive by its pending operations, and closes
/// the socket unless it ends as kConnected. It has no timer: its owner watches deadline_ns and calls Drop. Progress
/// thread.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  enum class End {
    kConnected,  ///< take socket()
    kRefused,    ///< by us: our judgement of the peer's hello
    kRefusedUs,  ///< by the peer, with its reason
    kDropped,    ///< not our protocol, too slow, gone
  };
  /// How a handshake ended.
  struct Result {
    End end = End::kDropped;
    Status status;   // not ok but with kConnected
    Rank rank = -1;  // with kConnected, and with kRefusedUs where known
  };
  struct Callbacks {
    /// What we say of ourselves; at most kMaxHelloBytes.
    std::function<std::string()> hello;
    /// Judges the peer's hello, which may be any bytes. @return its rank, or why it is refused; the peer is told that.
    std::function<StatusOr<Rank>(std::string_view hello)> judge;
    /// Called exactly once.
    std::function<void(const std::shared_ptr<Handshake>&, const Result&)> done;
  };

  /// @param socket connected and configured. @param accepted whether the peer connected to us; else we did to it.
  /// @param deadline_ns by the transport's clock.
  Handshake(TcpSocket socket, bool accepted, int64_t deadline_ns, Callbacks callbacks);

  /// Sends our hello if we are the connecting side, and begins to read.
  void Start();
  /// Ends it as kDropped because of `reason`; no effect when it has ended.
  void Drop(const std::string& reason);

  /// With kConnected: to be moved from.
  TcpSocket* socket() { return &socket_; }
  /// The peer's address and port, for messages.
  const std::string& address() const { return address_; }
  /// The peer's, once it was judged.
  const std::string& hello() const { return body_; }
  /// When to drop it, by the transport's clock.
  int64_t deadline_ns() const { return deadline_ns_; }
  bool accepted() const { return accepted_; }

 private:
  using Next = void (Handshake::*)();

  void Send(RecordKind kind, const std::string& body, Next next);
  void Read();
  void ReadBody(const Preamble& preamble);
  void OnRecord();
  void OnHello();
  void Refuse(const Status& reason);
  void FinishConnected();
  void FinishRefused();
  void Finish(End end, const Status& status);

  TcpSocket socket_;
  const bool accepted_;
  const std::string address_;
  const int64_t deadline_ns_;
  Callbacks callbacks_;
  PreambleBytes preamble_bytes_;
  Preamble preamble_;
  std::string body_;
  std::string out_;
  bool hello_came_ = false;
  bool ended_ = false;
  Rank rank_ = -1;
  Status refusal_;
};

}  // namespace hp

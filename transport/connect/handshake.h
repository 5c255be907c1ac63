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

/// One connection before it is an endpoint: transport/README.md, "Handshake". Progress thread.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  enum class End {
    kConnected,  ///< take socket()
    kRefused,    ///< by us: our judgement of the peer's hello
    kRefusedUs,  ///< by the peer, with its reason
    kDropped,    ///< not our protocol, too slow, gone
  };
  struct Result {
    End end = End::kDropped;
    Status status;   // not ok but with kConnected
    Rank rank = -1;  // with kConnected, and with kRefusedUs where known
  };
  struct Callbacks {
    std::function<std::string()> hello;
    std::function<StatusOr<Rank>(std::string_view hello)> judge;
    /// Called exactly once.
    std::function<void(const std::shared_ptr<Handshake>&, const Result&)> done;
  };

  /// @param accepted whether the peer connected to us. @param deadline_ns by the transport's clock; it calls Drop then.
  Handshake(TcpSocket socket, bool accepted, int64_t deadline_ns, Callbacks callbacks);

  void Start();
  /// Ends it as kDropped because of `reason`; no effect when it has ended.
  void Drop(const std::string& reason);

  TcpSocket* socket() { return &socket_; }
  const std::string& address() const { return address_; }
  /// The peer's, once it was judged.
  const std::string& hello() const { return body_; }
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

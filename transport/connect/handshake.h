#pragma once

#include "transport/connect/byte_stream.h"
#include "transport/connect/proof.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <array>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// The handshake on one connection: hellos are exchanged, and each side decides about the other's. The accepting side
/// sends nothing before it has read a well-formed hello. transport/README.md, "Handshake", has the records and their
/// order. Hold it by shared_ptr: its pending operations keep it alive. It closes the stream unless it ends as
/// kConnected. It has no timer: its owner watches deadline_ns() and calls Drop. Progress thread only; nothing blocks.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  enum class End {
    kConnected,  ///< both accept: take socket()
    kRefused,    ///< we refused the peer's hello, or its protocol version
    kRefusedUs,  ///< the peer refused ours, with its reason
    kDropped,    ///< another protocol, too slow, or the connection broke
  };
  /// How a handshake ended.
  struct Result {
    End end = End::kDropped;
    Status status;   ///< ok if and only if kConnected
    Rank rank = -1;  ///< of the peer: with kConnected, and with kRefusedUs where known; else -1
  };
  struct Callbacks {
    /// Our own hello; at most kMaxHelloBytes. Called when it is to be sent. @param to the hello that it answers; empty:
    /// we speak first.
    std::function<std::string(std::string_view to)> hello;
    /// Decides about the peer's hello, which may be any bytes. @return the peer's rank, or why it is refused; the
    /// message is sent to it, unless it is kUnavailable: then it hears nothing and may try again.
    /// @param proof what the peer has proven by then; null: there is no token.
    std::function<StatusOr<Rank>(std::string_view hello, const Proof* proof)> judge;
    /// Called exactly once, with the handshake and how it ended.
    std::function<void(const std::shared_ptr<Handshake>&, const Result&)> done;
  };

  /// @param stream nothing read or written yet. @param accepted whether the peer connected to us; false: we to
  /// it.
  /// @param deadline_ns for the owner, by the transport's clock. @param proof null: there is no token.
  Handshake(std::unique_ptr<ByteStream> stream, bool accepted, int64_t deadline_ns, std::unique_ptr<Proof> proof,
            Callbacks callbacks);

  /// Starts it: the connecting side sends its hello, both start to read. Once.
  void Start();
  /// Ends it as kDropped, with `reason` as the message (as kRefused if a refusal was being sent). No effect once it
  /// ended.
  void Drop(const std::string& reason);

  /// The connection, after kConnected: the owner's.
  std::unique_ptr<ByteStream> TakeStream() { return std::move(stream_); }
  /// The peer's address and port, for messages.
  const std::string& address() const { return address_; }
  /// The peer's address without its port.
  std::string host() const { return address_.substr(0, address_.rfind(':')); }
  /// The peer's hello, once Callbacks::judge has had it.
  const std::string& hello() const { return body_; }
  /// When the owner shall drop it, by the transport's clock.
  int64_t deadline_ns() const { return deadline_ns_; }
  bool accepted() const { return accepted_; }  ///< whether the peer connected to us

 private:
  using Next = void (Handshake::*)();

  void Send(RecordKind kind, const std::string& body, Next next);
  void Read();
  /// Why the stream ended or failed before a record.
  std::string EndWithin(const ByteStream::ReadResult& result) const;
  void ReadBody(const Preamble& preamble);
  void OnRecord();
  void OnNonce();
  void OnHello();
  void SendHello(std::string_view to, Next next);
  /// Takes the seal off what came. @return false: the handshake has ended.
  bool OpenBody();
  std::string Sealed(RecordKind kind, const std::string& body) const;
  void Refuse(const Status& reason);
  void FinishConnected();
  void FinishRefused();
  void Finish(End end, const Status& status);

  std::unique_ptr<ByteStream> stream_;  // until it is taken
  const bool accepted_;
  const std::string address_;
  const int64_t deadline_ns_;
  const std::unique_ptr<Proof> proof_;
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

#pragma once

#include "base/job_token.h"
#include "hp/status.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <string>
#include <string_view>

namespace hp {

/// How the two sides of one connection prove to each other that they have the job's token, before either judges what
/// the other says. Both send a nonce; then each seals its records: it puts before the body who it is and an HMAC over
/// both nonces, both sides' ranks and kinds, the direction and the body. So what was recorded on another connection
/// proves nothing on this one. transport/README.md, "Handshake", has the bytes. It proves who connects; it hides
/// nothing, and what follows the handshake is not protected. One thread at a time.
class Proof {
 public:
  /// Who we are.
  struct Self {
    bool client = false;    ///< not a node of the job
    bool control = false;   ///< a client that gives orders
    Rank rank = 0;          ///< of a node; ignored for a client
    bool accepted = false;  ///< whether the peer connected to us
    Rank dialed = 0;        ///< not accepted: the node that we connected to
  };
  /// @param keys must outlive it. With a read key alone it must be a client's that gives no orders (CHECK).
  Proof(const JobKeys* keys, const Self& self);

  /// The body of our NONCE record, drawn once.
  std::string OwnNonce() const;
  /// The body of the peer's. @return kUnavailable: it is none.
  Status SetPeerNonce(std::string_view body);
  bool has_peer_nonce() const { return has_peer_nonce_; }

  /// A record's body as it is sent. The accepting side must have opened the peer's first (CHECK).
  std::string Seal(RecordKind kind, std::string_view body) const;
  /// What Seal of the other side was given. @return kUnavailable: it has another token, or this was not said here.
  StatusOr<std::string> Open(RecordKind kind, std::string_view sealed);

  // What the peer has proven; after Open.
  bool peer_is_client() const { return peer_.kind != Kind::kNode; }
  bool peer_is_controller() const { return peer_.kind == Kind::kController; }
  Rank peer_rank() const { return peer_.rank; }  ///< of a node

 private:
  /// As it stands in a sealed record.
  enum class Kind : uint8_t { kNode = 1, kReader = 2, kController = 3 };
  struct Party {
    Kind kind = Kind::kNode;
    Rank rank = 0;
  };
  static Kind KindOf(const Self& self) {
    return !self.client ? Kind::kNode : self.control ? Kind::kController : Kind::kReader;
  }
  const SecretKey& KeyOf(Kind dialer) const;
  SecretKey CodeOf(bool by_dialer, RecordKind kind, std::string_view body) const;

  const JobKeys& keys_;
  const bool accepted_;
  const Party own_;
  Party peer_;
  bool peer_known_;
  const SecretKey nonce_;
  SecretKey peer_nonce_ = {};
  bool has_peer_nonce_ = false;
};

}  // namespace hp

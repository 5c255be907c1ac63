#include "transport/connect/proof.h"

#include "transport/little_endian.h"

#include <glog/logging.h>

#include <array>
#include <cstring>

namespace hp {
namespace {

// Before the body of a sealed record: kind of the sender, its rank, the HMAC.
constexpr size_t kRankAt = 1, kCodeAt = 5, kSealBytes = kCodeAt + sizeof(SecretKey);

template <typename T>
void Append(std::string* text, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  StoreLittle<T>(bytes.data(), value);
  text->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string Text(const SecretKey& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

}  // namespace

Proof::Proof(const JobKeys* keys, const Self& self)
    : keys_(*keys),
      accepted_(self.accepted),
      own_{KindOf(self), self.client ? -1 : self.rank},
      peer_{Kind::kNode, self.dialed},
      peer_known_(!self.accepted),
      nonce_(RandomBytes()) {
  CHECK(keys_.node || own_.kind == Kind::kReader) << "a read key proves nothing but a reader";
}

std::string Proof::OwnNonce() const { return Text(nonce_); }

Status Proof::SetPeerNonce(std::string_view body) {
  if (has_peer_nonce_ || body.size() != peer_nonce_.size()) return Unavailable("it sent a nonce of the wrong size");
  std::memcpy(peer_nonce_.data(), body.data(), body.size());
  has_peer_nonce_ = true;
  return OkStatus();
}

const SecretKey& Proof::KeyOf(Kind dialer) const {
  switch (dialer) {
    case Kind::kReader:
      return keys_.readers;
    case Kind::kController:
      return keys_.controllers;
    case Kind::kNode:
      break;
  }
  return keys_.nodes;
}

SecretKey Proof::CodeOf(bool by_dialer, RecordKind kind, std::string_view body) const {
  const Party& dialer = accepted_ ? peer_ : own_;
  const Party& acceptor = accepted_ ? own_ : peer_;
  std::string message = "hpnode handshake 1";
  Append<uint8_t>(&message, by_dialer);
  message += Text(accepted_ ? peer_nonce_ : nonce_) + Text(accepted_ ? nonce_ : peer_nonce_);
  for (const Party& party : {dialer, acceptor}) {
    Append<uint8_t>(&message, static_cast<uint8_t>(party.kind));
    Append<uint32_t>(&message, static_cast<uint32_t>(party.rank));
  }
  Append<uint16_t>(&message, static_cast<uint16_t>(kind));
  message += body;
  return Authenticate(KeyOf(dialer.kind), message);
}

std::string Proof::Seal(RecordKind kind, std::string_view body) const {
  CHECK(peer_known_ && has_peer_nonce_) << "nobody to prove anything to";
  std::string sealed;
  Append<uint8_t>(&sealed, static_cast<uint8_t>(own_.kind));
  Append<uint32_t>(&sealed, static_cast<uint32_t>(own_.rank));
  return sealed + Text(CodeOf(!accepted_, kind, body)) + std::string(body);
}

StatusOr<std::string> Proof::Open(RecordKind kind, std::string_view sealed) {
  if (!has_peer_nonce_ || sealed.size() < kSealBytes) return Unavailable("it sent no proof that it has a token");
  const auto* bytes = reinterpret_cast<const std::byte*>(sealed.data());
  const Kind sender = static_cast<Kind>(bytes[0]);
  if (sender != Kind::kNode && sender != Kind::kReader && sender != Kind::kController)
    return Unavailable("it is neither a node nor a client");
  const Party said = {sender, static_cast<Rank>(LoadLittle<uint32_t>(bytes + kRankAt))};
  if (peer_known_ && (said.kind != peer_.kind || said.rank != peer_.rank)) {
    return Unavailable("it is not the node that was expected");
  }
  peer_ = said;
  SecretKey code;
  std::memcpy(code.data(), bytes + kCodeAt, code.size());
  const std::string_view body = sealed.substr(kSealBytes);
  if (!SameBytes(code, CodeOf(accepted_, kind, body))) return Unavailable("it has another token");
  peer_known_ = true;
  return std::string(body);
}

}  // namespace hp

#pragma once

#include "base/job_token.h"
#include "transport/transport.h"

#include "rendezvous/entry.h"

#include <optional>
#include <string>
#include <string_view>

namespace hp {

/// Messages between a process that asks and hpserver, each a sealed entry.
enum ServerMessage : uint32_t {
  kTellMessage = 1,    ///< to the server: a NodeRecord, named "tell"
  kAnswerMessage = 2,  ///< from it: a RendezvousAnswer, named "answer.NONCE"
};

/// Stands for the run in the seals of these messages: who asks may not know the run's id.
constexpr char kServerSealRun[] = "hpserver";

/// The two sides of the handshake between hpserver and those who ask, which tells them from nodes of a job.
class ServerHandshake : public HandshakePolicy {
 public:
  /// @param server which side this is. A server gives each that comes a rank of its own from kFirstClientRank on.
  explicit ServerHandshake(bool server) : server_(server) {}
  std::string Hello() override { return server_ ? "hpserver 1" : "hpserver client 1"; }
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnRefused(Rank, const Status& reason) override { refusal_ = reason; }
  /// Why the server refused; ok: it did not. Progress thread, or after Transport::Stop.
  const Status& refusal() const { return refusal_; }

 private:
  const bool server_;
  Rank next_ = kFirstClientRank;
  Status refusal_;
};

/// What both sides of a connection with hpserver prove: that they have the key "rendezvous".
std::optional<JobKeys> RendezvousProof(const std::optional<JobKeys>& keys);

/// Reads a message of a process that asks, which may be any bytes: its seal, then each field's range.
/// @return kDataLoss, kFailedPrecondition: what is wrong with it; the connection is to be closed.
StatusOr<NodeRecord> ReadTell(const EntrySeal& seal, uint32_t type, std::span<const std::byte> bytes);

}  // namespace hp

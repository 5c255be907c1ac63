#include "rendezvous/server_messages.h"

namespace hp {

StatusOr<Rank> ServerHandshake::Accept(std::string_view hello) {
  if (server_ && hello == "hpserver client 1") return next_++;
  if (!server_ && hello == "hpserver 1") return 0;
  return FailedPrecondition(server_ ? "this is hpserver, and the hello is of something else"
                                    : "what listens there is not this version's hpserver");
}

std::optional<JobKeys> RendezvousProof(const std::optional<JobKeys>& keys) {
  if (!keys) return std::nullopt;
  const SecretKey& key = keys->rendezvous;  // for each way to prove who one is: a key of zeros would be anybody's
  return JobKeys{.node = true, .nodes = key, .readers = key, .controllers = key, .rendezvous = key};
}

StatusOr<NodeRecord> ReadTell(const EntrySeal& seal, uint32_t type, std::span<const std::byte> bytes) {
  if (type != kTellMessage) return DataLoss("it sent a message of kind %u, which hpserver does not know", type);
  HP_ASSIGN_OR_RETURN(const std::string body,
                      seal.Open("tell", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return ParseNodeRecord(body);
}

}  // namespace hp

#pragma once

#include "base/job_token.h"
#include "hp/status.h"
#include "proto/rendezvous.pb.h"

#include <optional>
#include <string>
#include <string_view>

namespace hp {

// What is kept and sent before there is a job, and the only place that looks whether it may be so. Any thread.

/// A text of 32 hexadecimal digits that nobody can guess: the nonce of a process, or a random run id.
std::string NewNonce();

/// Seals and opens the entries of one run. With a token each entry carries an HMAC over the run, the entry's name and
/// its body, so that none is taken for another one, or for one of another run. A value.
class EntrySeal {
 public:
  /// @param run the run id, or what stands for it. @param keys none: the run has no token, and entries carry no HMAC.
  EntrySeal(std::string run, const std::optional<JobKeys>& keys);

  /// @param name of the entry in its run: "node.NONCE", "table.3". @return the entry's bytes.
  std::string Seal(const std::string& name, const std::string& body) const;
  /// @return what Seal was given; kDataLoss: it is no entry; kFailedPrecondition: it is not of this run's token, or
  /// has a seal and this process no token.
  StatusOr<std::string> Open(const std::string& name, std::string_view entry) const;

 private:
  SecretKey CodeOf(const std::string& name, std::string_view body) const;

  std::string run_;
  std::optional<SecretKey> key_;
};

/// Reads what a process says of itself, with all ranges checked. @return kDataLoss: what is wrong with it.
StatusOr<NodeRecord> ParseNodeRecord(std::string_view body);
/// Likewise, a table that was handed out; its config is not looked into beyond the names of its nodes.
StatusOr<TableRecord> ParseTableRecord(std::string_view body);
/// Likewise, an answer.
StatusOr<RendezvousAnswer> ParseRendezvousAnswer(std::string_view body);

/// The most processes that one run may have: nodes, and those that wait.
constexpr int kMostRendezvousNodes = 4096;

}  // namespace hp

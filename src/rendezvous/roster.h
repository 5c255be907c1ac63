#pragma once

#include "base/clock.h"
#include "proto/rendezvous.pb.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// How many processes a plan needs before it is made.
struct NodesWanted {
  int conv = 0, fc = 0, ps = 0;           ///< by role; a process that wishes no role takes any
  int any = 0;                            ///< whatever they wish, the plan decides; then the others are 0
  std::vector<std::string> exclude = {};  ///< hosts whose processes get no entry, as IsOnHost reads them
  int total() const { return conv + fc + ps + any; }
};

/// Whether a user who writes `host` means the host of a process: its name, that up to the first dot, or one of the
/// addresses that it says.
bool IsOnHost(const NodeRecord& record, const std::string& host);

/// Chooses who gets an entry: conv nodes first, then FC nodes, then parameter servers, in the order of host, port and
/// nonce. @return as many as `wanted`, or nothing: there are not enough.
std::vector<NodeRecord> ChooseNodes(std::vector<NodeRecord> waiting, const NodesWanted& wanted);

/// Who takes part in a run, as far as one process has heard, and what follows: who is told what, and when the next
/// table is due. It holds no clock of others: a process is alive as long as its record changes. One thread at a time.
/// README.md has the rules.
class Roster {
 public:
  /// A process whose record has not changed for this long is taken for dead; one whose connection has ended, for
  /// kGoneNs.
  static constexpr int64_t kSilenceNs = 10 * kNsPerSecond, kGoneNs = 3 * kNsPerSecond;

  /// @param wanted none: whoever asks this roster does not plan. @param clock outlives it.
  Roster(std::optional<NodesWanted> wanted, std::string request, const Clock* clock);

  /// A process says this of itself. A record that is older than what is known, or beyond kMostRendezvousNodes
  /// processes, changes nothing.
  void Hear(const NodeRecord& record);
  /// Whether that process has been heard, and not forgotten.
  bool Knows(const std::string& nonce) const { return heard_.contains(nonce); }
  /// The connection of that process has ended; what it says later counts again.
  void Leave(const std::string& nonce);
  /// The newest table. One that is not newer than what is known changes nothing.
  void SetTable(const TableRecord& table);
  const std::optional<TableRecord>& table() const { return table_; }

  /// What a process is told that has been heard (CHECK).
  RendezvousAnswer AnswerTo(const std::string& nonce) const;
  /// Whom the next table is for, in the order of its nodes; empty: it is not due.
  std::vector<NodeRecord> DueNodes() const;
  /// The others that wait, and will have no entry once DueNodes have theirs.
  std::vector<NodeRecord> WaitingBeside(const std::vector<NodeRecord>& due) const;
  /// Processes that have ended or are silent for long, and that the newest table does not name: their records may go.
  std::vector<std::string> Forgettable() const;
  /// How the job of the newest table goes, for a log; empty: none of its nodes lives.
  std::string Progress() const;
  /// Lets go of a process.
  void Forget(const std::string& nonce) { heard_.erase(nonce); }

 private:
  struct Heard {
    NodeRecord record;
    int64_t first_ns = 0, changed_ns = 0;
    bool changed = false;  // since it was first heard: it lives, and is no leftover of an earlier run
    bool left = false;
  };
  bool Seated(const std::string& nonce) const;
  bool MayLive(const std::string& nonce) const;
  bool Waits(const Heard& heard) const;
  /// The host of `wanted_` that has the process left out; null: none.
  const std::string* ExcludedBy(const NodeRecord& record) const;
  std::vector<NodeRecord> Waiting() const;
  /// Names of the nodes of the newest table that may still live.
  std::vector<std::string> LivingNodes() const;
  /// One of them, with its host, for a message: "conv0 on host a"; empty: none.
  std::string OneWhoLives() const;
  /// Whether the table's job has gone on undisturbed for long since this process came.
  bool UnderWay(const Heard& heard) const;
  std::string WhatIsMissing() const;

  const std::optional<NodesWanted> wanted_;
  const std::string request_;
  const Clock* const clock_;
  std::map<std::string, Heard> heard_;  // by nonce
  std::optional<TableRecord> table_;
  int64_t table_ns_ = 0;  // when it came
};

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "proto/snapshot.pb.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// A start of a job, numbered among all starts that write snapshots of one prefix. Two of one run may live at once: the
/// older one was stopped or cut off, and somebody has started the job anew. The higher number has the right to write;
/// the lower one finds out before it touches a file. The number is the name of a file beside the snapshots,
/// PREFIX_start_N, which only one process can make (link(), on network file systems too). Its process holds a lock on
/// it (flock, which ends with the process), so that another run finds the prefix taken. Any thread.
class Incarnation {
 public:
  /// How long a claim waits for another run's end: longer than nodes take to notice the loss of one.
  static constexpr std::chrono::milliseconds kPatience{4000};

  /// Claims the number behind the highest that is there, and removes what lower ones left: their files, and temporary
  /// files and parts of snapshots that were not completed. Where the latest start is another run's and alive, waits
  /// for its end. Runs with different names are different ones, also where one goes on from the other's snapshot. A
  /// file system without locks tells the living from the dead no longer: then the claim succeeds, with a warning.
  /// @param run that it trains; RunOfLatestStart reads it. @param restarted whether this is not the run's first start:
  /// then an earlier one of its name may still live.
  /// @return kFailedPrecondition: another run has the prefix, with its host and process; kInvalidArgument: the folder
  /// is missing or can't be written; kResourceExhausted: no space.
  static StatusOr<std::unique_ptr<Incarnation>> Claim(const std::string& prefix, const RunMark& run = {},
                                                      bool restarted = false,
                                                      std::chrono::milliseconds patience = kPatience);
  ~Incarnation();
  Incarnation(const Incarnation&) = delete;

  int64_t number() const { return number_; }
  /// @return kFailedPrecondition: a later start has claimed a higher number, or ours is gone.
  Status Check() const;

 private:
  Incarnation(std::string prefix, int64_t number, std::string content, int lock)
      : prefix_(std::move(prefix)), number_(number), content_(std::move(content)), lock_(lock) {}

  const std::string prefix_;
  const int64_t number_;
  const std::string content_;  // of our file: tells it from that of another process
  const int lock_;             // file descriptor; -1: none
};

/// Whether the run may go on with the training that has the snapshots of a prefix, by what the latest start there says.
/// @param restarted whether this is not the run's first start: then it has no business with another one's snapshots.
/// @return kFailedPrecondition: the start is of a run with another name, and is alive or this one `restarted`.
Status CheckGoesOn(const std::string& prefix, const RunMark& run, bool restarted);

/// The number of the latest start of a prefix; 0: there is none. Any thread.
int64_t LatestStart(const std::string& prefix);

/// The run that the latest start of a prefix trains or trained, whether or not it has written a snapshot. Nothing: no
/// start left a file, or one of a version that did not write it. Any thread.
std::optional<RunMark> RunOfLatestStart(const std::string& prefix);

}  // namespace hp

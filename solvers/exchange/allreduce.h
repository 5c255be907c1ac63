#pragma once

#include "hp/status.h"
#include "solvers/exchange/block_plan.h"
#include "solvers/exchange/link_place.h"

#include <cstdint>
#include <functional>
#include <span>

namespace hp {

/// The allreduces of one replica, as a state machine without threads: collectives and events of the links go in, posts
/// to the links and finished sums come out. Several collectives may be under way at once. It never waits: a chunk moves
/// on when it has arrived and whom it goes to has granted its place.
///
/// One thread at a time, which also does the additions. A function that returns an error has ended the sums: call none
/// after it.
class Allreduce {
 public:
  /// The values of a collective hold the sums, and no transfer uses them any more. Called from within Start and the
  /// events; must not call back.
  using DoneSink = std::function<void(uint64_t clock, int collective)>;
  /// Collectives that are started before those ahead of them are done. Two keep the links busy while the last chunks
  /// of one are on their way; each one more has up to BlockPlan::kMaxChunks places granted.
  static constexpr int kUnderWay = 2;

  virtual ~Allreduce() = default;

  virtual const BlockPlan& plan() const = 0;
  /// Starts a collective; those of a clock in the order of the plan, and all of them before those of the next clock.
  /// @param values [count of the collective] float32, registered with the links; the allreduce's until it is done.
  /// @return PeerLinks' error.
  virtual Status Start(uint64_t clock, int collective, std::span<float> values) = 0;
  virtual int under_way() const = 0;

  /// The events of the links, in the order in which they came. @return PeerLinks' error.
  /// @param peer index of the replica. @param place one of the plan, granted once in its update; it may come before
  /// Start.
  virtual Status OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) = 0;
  virtual Status OnArrived(int peer, const LinkPlace& place) = 0;
  virtual Status OnWritten(int peer, const LinkPlace& place) = 0;
};

}  // namespace hp

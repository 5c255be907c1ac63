#pragma once

#include "hp/status.h"
#include "solvers/exchange/ring_links.h"
#include "solvers/exchange/ring_plan.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// The allreduces of one replica, as a state machine without threads: collectives and events of the links go in, posts
/// to the links and finished sums come out. Several collectives may be under way at once. It never waits: a chunk moves
/// on when it has arrived and the right neighbour has granted its place.
///
/// One thread at a time, which also does the additions. A function that returns an error has ended the ring: call none
/// after it.
class Ring {
 public:
  /// The values of a collective hold the sums, and no transfer uses them any more. Called from within Start and the
  /// events; must not call back.
  using DoneSink = std::function<void(uint64_t clock, int collective)>;
  /// Collectives that are started before those ahead of them are done. Two keep the links busy while the last chunks
  /// of one go round; each one more has up to kMaxChunks places granted.
  static constexpr int kUnderWay = 2;

  /// Allocates the places for what is added on arrival, and registers them. @param plan, links must outlive the ring.
  /// @return the error of RingLinks::Register.
  static StatusOr<std::unique_ptr<Ring>> Create(const RingPlan* plan, RingLinks* links, DoneSink on_done);

  /// Of the memory that it allocates.
  static size_t BytesFor(const RingPlan& plan);

  /// Starts a collective; those of a clock in the order of the plan, and all of them before those of the next clock.
  /// @param values [count of the collective] float32, registered with the links; the ring's until it is done.
  /// @return RingLinks' error.
  Status Start(uint64_t clock, int collective, std::span<float> values);
  int under_way() const { return static_cast<int>(sums_.size()); }

  /// The events of the links, in the order in which they came. @return RingLinks' error.
  /// @param place one of the plan, granted once in its update; it may come before Start.
  Status OnGranted(const LinkPlace& place, const LinkGrant& grant);
  Status OnArrived(const LinkPlace& place);
  Status OnWritten(const LinkPlace& place);

 private:
  /// A collective under way.
  struct Sum {
    std::span<float> values;
    uint64_t left = 0;  // sends and receives that have not ended
  };
  /// A chunk whose place is granted, to be written.
  struct Sendable {
    LinkGrant grant;
    std::span<const float> source;
  };
  using SumKey = std::pair<uint64_t, int>;  // clock, collective

  Ring(const RingPlan* plan, RingLinks* links, DoneSink on_done);
  uint64_t TransfersOf(int collective) const;
  std::span<float> ValuesOf(const LinkPlace& place, const Range& range);
  std::span<float> Slot(int slot, size_t count) { return {scratch_.floats() + slot * slot_values_, count}; }
  /// The values of this transfer may be sent.
  void Ready(uint64_t clock, const RingPlan::Transfer& transfer);
  void EndOne(const LinkPlace& place);
  /// Posts what can be posted.
  Status Post();

  const RingPlan& plan_;
  RingLinks* const links_;
  const DoneSink on_done_;

  std::map<SumKey, Sum> sums_;
  // Places for what is added on arrival: a few, granted in one order.
  const size_t slot_values_;
  Buffer scratch_;
  std::shared_ptr<const void> registered_;
  std::vector<int> free_slots_;
  std::map<LinkPlace, int> slots_;  // granted
  std::deque<LinkPlace> wanted_;    // not granted yet

  // Sends: a chunk is ready, its place is granted, both, or being written.
  std::map<LinkPlace, std::span<const float>> ready_;
  std::map<LinkPlace, LinkGrant> granted_;
  std::map<LinkPlace, Sendable> sendable_;
  int writes_ = 0;
};

}  // namespace hp

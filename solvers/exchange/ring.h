#pragma once

#include "hp/status.h"
#include "solvers/exchange/allreduce.h"
#include "solvers/exchange/peer_links.h"
#include "solvers/exchange/ring_plan.h"
#include "solvers/exchange/sums_under_way.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// Sums round a ring, as RingPlan says.
class Ring : public Allreduce {
 public:
  /// Allocates the places for what is added on arrival, and registers them. @param links must outlive the ring.
  /// @return the error of PeerLinks::Register.
  static StatusOr<std::unique_ptr<Allreduce>> Create(RingPlan plan, PeerLinks* links, DoneSink on_done);

  /// Of the memory that it allocates.
  static size_t BytesFor(const RingPlan& plan);

  const BlockPlan& plan() const override { return plan_; }
  Status Start(uint64_t clock, int collective, std::span<float> values) override;
  int under_way() const override { return sums_.count(); }
  Status OnGranted(int right, const LinkPlace& place, const LinkGrant& grant) override;
  Status OnArrived(int left, const LinkPlace& place) override;
  Status OnWritten(int right, const LinkPlace& place) override;

 private:
  /// A chunk whose place is granted, to be written.
  struct Sendable {
    LinkGrant grant;
    std::span<const float> source;
  };

  Ring(RingPlan plan, PeerLinks* links, DoneSink on_done);
  uint64_t TransfersOf(int collective) const;
  std::span<float> Slot(int slot, size_t count) { return {scratch_.floats() + slot * slot_values_, count}; }
  /// The values of this transfer may be sent.
  void Ready(uint64_t clock, const RingPlan::Transfer& transfer);
  /// Posts what can be posted.
  Status Post();

  const RingPlan plan_;
  PeerLinks* const links_;
  SumsUnderWay sums_;

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

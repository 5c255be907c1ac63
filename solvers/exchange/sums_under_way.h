#pragma once

#include "base/range.h"
#include "solvers/exchange/allreduce.h"
#include "solvers/exchange/block_plan.h"
#include "solvers/exchange/link_place.h"

#include <cstdint>
#include <map>
#include <span>
#include <utility>

namespace hp {

/// The collectives of an Allreduce that are under way: where their values are, and how many transfers have not ended.
/// Not thread-safe.
class SumsUnderWay {
 public:
  /// @param plan must outlive it.
  SumsUnderWay(const BlockPlan* plan, Allreduce::DoneSink on_done) : plan_(*plan), on_done_(std::move(on_done)) {}

  int count() const { return static_cast<int>(sums_.size()); }
  /// Allreduce::Start. @param transfers sends and receives of this replica.
  /// @return false: there are none, and the sum is done.
  bool Start(uint64_t clock, int collective, std::span<float> values, uint64_t transfers);
  /// @param place of a collective that is under way (CHECK). @param range of its values.
  std::span<float> ValuesOf(const LinkPlace& place, const Range& range) const;
  /// A send or receive has ended; the last one is the end of the sum.
  void EndOne(const LinkPlace& place);

 private:
  struct Sum {
    std::span<float> values;
    uint64_t left = 0;  // sends and receives that have not ended
  };
  using Key = std::pair<uint64_t, int>;  // clock, collective
  Key KeyOf(const LinkPlace& place) const { return {place.clock, plan_.At(place.number).collective}; }

  const BlockPlan& plan_;
  const Allreduce::DoneSink on_done_;
  std::map<Key, Sum> sums_;
};

}  // namespace hp

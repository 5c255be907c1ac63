#include "solvers/exchange/sums_under_way.h"

#include "glog/logging.h"

namespace hp {

bool SumsUnderWay::Start(uint64_t clock, int collective, std::span<float> values, uint64_t transfers) {
  CHECK_EQ(values.size(), plan_.collectives()[collective].count);
  if (transfers > 0) {
    sums_[{clock, collective}] = {values, transfers};
    return true;
  }
  on_done_(clock, collective);
  return false;
}

std::span<float> SumsUnderWay::ValuesOf(const LinkPlace& place, const Range& range) const {
  const auto sum = sums_.find(KeyOf(place));
  CHECK(sum != sums_.end()) << "a transfer of a collective that is not under way";
  return sum->second.values.subspan(range.begin, range.size());
}

void SumsUnderWay::EndOne(const LinkPlace& place) {
  const auto sum = sums_.find(KeyOf(place));
  if (--sum->second.left > 0) return;
  const auto [clock, collective] = sum->first;
  sums_.erase(sum);
  on_done_(clock, collective);
}

}  // namespace hp

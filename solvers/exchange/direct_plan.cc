#include "solvers/exchange/direct_plan.h"

namespace hp {

std::vector<size_t> DirectPlan::BytesFrom(int granter) const {
  std::vector<size_t> bytes(places());
  for (uint32_t number = 0; number < places(); ++number) {
    const auto [collective, step, chunk] = At(number);
    const Range values = ValuesOf(collective, BlockFor(step, granter, rank()), chunk);
    bytes[number] = static_cast<size_t>(values.size()) * ValueBytes(collective);
  }
  return bytes;
}

}  // namespace hp

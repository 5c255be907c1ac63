#include "solvers/exchange/ring_plan.h"

namespace hp {

std::vector<size_t> RingPlan::SentBytes() const {
  std::vector<size_t> bytes(places());
  for (uint32_t number = 0; number < places(); ++number) bytes[number] = Sent(At(number)).size() * sizeof(float);
  return bytes;
}

}  // namespace hp

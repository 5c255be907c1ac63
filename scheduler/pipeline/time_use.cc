#include "scheduler/pipeline/time_use.h"

namespace hp {

const char* NameOf(Wait wait) {
  static constexpr const char* kNames[kWaits] = {"input", "activations", "gradients", "grants",
                                                 "sends", "exchange",    "verdict",   "snapshot"};
  return kNames[static_cast<int>(wait)];
}

TimeUse TimeKeeper::Until(int64_t now_ns) const {
  TimeUse use = sum_;
  if (state_.computing) use.computing_ns += now_ns - since_ns_;
  if (state_.wait) use.waiting_ns[static_cast<int>(*state_.wait)] += now_ns - since_ns_;
  return use;
}

void TimeKeeper::Change(int64_t now_ns, State state) {
  sum_ = Until(now_ns);
  state_ = state;
  since_ns_ = now_ns;
}

}  // namespace hp

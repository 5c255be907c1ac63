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

std::optional<EndedWait> TimeKeeper::Change(int64_t now_ns, State state) {
  if (state == state_) return std::nullopt;
  std::optional<EndedWait> ended;
  if (state_.wait) ended = {*state_.wait, since_ns_};
  sum_ = Until(now_ns);
  state_ = state;
  since_ns_ = now_ns;
  return ended;
}

}  // namespace hp

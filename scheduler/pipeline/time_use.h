#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace hp {

/// Why a node has nothing to compute.
enum class Wait {
  kInput,        ///< images or labels
  kActivations,  ///< a tensor of a forward pass, from another node
  kGradients,    ///< one of a backward pass
  kGrants,       ///< a tensor is computed, and its reader has no room for it
  kSends,        ///< all solvers are taken by tensors that are being sent
  kExchange,     ///< sums of gradients over replicas
  kVerdict,      ///< the first node's answer on an earlier iteration, or on this one with clip_gradients or larc
  kSnapshot,     ///< room for a copy of the parameters
};
constexpr int kWaits = 8;
/// "input", "activations", ...
const char* NameOf(Wait wait);

/// What a node's time since the start of training went into, in ns. What is left of it is the node's own handing over
/// of tasks.
struct TimeUse {
  int64_t computing_ns = 0;                     ///< at least one task was under way
  std::array<int64_t, kWaits> waiting_ns = {};  ///< by Wait

  /// What came since `before`, an earlier one.
  TimeUse& operator-=(const TimeUse& before) {
    computing_ns -= before.computing_ns;
    for (int wait = 0; wait < kWaits; ++wait) waiting_ns[wait] -= before.waiting_ns[wait];
    return *this;
  }
  int64_t waiting(Wait wait) const { return waiting_ns[static_cast<int>(wait)]; }
};

/// A wait that has ended.
struct EndedWait {
  Wait wait = Wait::kInput;
  int64_t begin_ns = 0;
};

/// Adds up a TimeUse: told at each change what the node does from then on. Not thread-safe.
class TimeKeeper {
 public:
  /// From `now_ns` on a task is under way.
  /// @return the wait that ends with that, if there was one; so do the next two.
  std::optional<EndedWait> Compute(int64_t now_ns) { return Change(now_ns, {true, std::nullopt}); }
  /// From `now_ns` on there is nothing to compute.
  std::optional<EndedWait> Await(int64_t now_ns, Wait wait) { return Change(now_ns, {false, wait}); }
  /// Neither: a task is being handed over, or the work is done.
  std::optional<EndedWait> Rest(int64_t now_ns) { return Change(now_ns, {}); }
  /// Up to `now_ns`, which is not before the last change.
  TimeUse Until(int64_t now_ns) const;

 private:
  struct State {
    bool computing = false;
    std::optional<Wait> wait;
    bool operator==(const State&) const = default;
  };
  std::optional<EndedWait> Change(int64_t now_ns, State state);

  TimeUse sum_;
  State state_;
  int64_t since_ns_ = 0;
};

}  // namespace hp

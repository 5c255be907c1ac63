#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hp {

/// What an executor without a task waits for: what comes to end the wait.
enum class WaitCause {
  kActivations,  ///< a tensor on its way forward
  kGradients,    ///< the gradient of one
  kGrant,        ///< a tensor that was final, and waited for its place
  kSolver,       ///< a write's end, which frees a solver
  kExchange,     ///< the sum of a gradient over the replicas
  kVerdict,      ///< the first node's, of the clock before the last; or of the clock itself, with clip_gradients
};
constexpr size_t kWaitCauses = 6;
/// In a few words, for tables.
constexpr std::array<const char*, kWaitCauses> kWaitCauseNames = {"activations", "gradients", "grants",
                                                                  "solvers",     "exchange",  "verdict"};

/// What a node did over a time.
struct NodeUse {
  int64_t ns = 0;                                                          ///< the time
  int64_t forward_ns = 0, backward_ns = 0, weights_ns = 0, update_ns = 0;  ///< computing; norms count as updates
  std::array<int64_t, kWaitCauses> wait_ns = {};                           ///< by WaitCause
  int64_t solver_ns = 0;                                                   ///< times bound solvers
  int most_solvers = 0;                                                    ///< bound at once
  int64_t sent_bytes = 0, received_bytes = 0;                              ///< tensors and exchange
  int64_t wire_out_bytes = 0, wire_in_bytes = 0;                           ///< of these, to and from other hosts
  int64_t busy_ns() const { return forward_ns + backward_ns + weights_ns + update_ns; }
};

}  // namespace hp

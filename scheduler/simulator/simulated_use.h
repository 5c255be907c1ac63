#pragma once

#include "scheduler/pipeline/time_use.h"

#include <cstdint>

namespace hp {

/// What a node did over a time.
struct SimulatedUse {
  int64_t ns = 0;                                                          ///< the time
  int64_t forward_ns = 0, backward_ns = 0, weights_ns = 0, update_ns = 0;  ///< computing; norms count as updates
  TimeUse time;                                                            ///< as its pipeline counts it
  int64_t solver_ns = 0;                                                   ///< times bound solvers
  int most_solvers = 0;                                                    ///< bound at once
  int64_t sent_bytes = 0, received_bytes = 0;                              ///< tensors and exchange
  int64_t wire_out_bytes = 0, wire_in_bytes = 0;                           ///< of these, to and from other hosts
  int64_t busy_ns() const { return forward_ns + backward_ns + weights_ns + update_ns; }
};

}  // namespace hp

#pragma once

#include "hp/status.h"

#include <nccl.h>

#include <chrono>

namespace hp {

/// Between two questions for what NCCL does by a thread of its own: a sum is in the stream after some microseconds, and
/// to sleep takes 150; what takes longer is worth that.
class NcclPatience {
 public:
  void Wait();

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// @param comm whose call it was; null: of none. @return ok: it is done or under way; else kUnavailable, or
/// kFailedPrecondition where no other try helps.
Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call);

/// @param call whose state it is. @return what became of it: an error of it, or that it can't be asked after.
Status AskNcclState(ncclComm_t comm, const char* call, ncclResult_t* state);

}  // namespace hp

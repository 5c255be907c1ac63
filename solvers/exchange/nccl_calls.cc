#include "solvers/exchange/nccl_calls.h"

#include "base/format.h"

#include <string>
#include <thread>

namespace hp {

void NcclPatience::Wait() {
  const bool soon = std::chrono::steady_clock::now() - begin_ < std::chrono::milliseconds(1);
  soon ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(100));
}

Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return OkStatus();
  const std::string text = Format("%s: %s (%s)", call, ncclGetErrorString(result), ncclGetLastError(comm));
  // As two replicas on one GPU, which no restart changes.
  if (result == ncclInvalidUsage) return FailedPrecondition("%s", text.c_str());
  return Unavailable("%s", text.c_str());
}

Status AskNcclState(ncclComm_t comm, const char* call, ncclResult_t* state) {
  HP_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm, state), comm, "ncclCommGetAsyncError"));
  return NcclStatus(*state, comm, call);
}

}  // namespace hp

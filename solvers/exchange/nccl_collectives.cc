// Replica 0 makes NCCL's unique id and hands it to the others by the rendezvous; then all join the communicator. It is
// a non-blocking one: what its calls begin is asked after until it is done, so that a wait can end with the job. Calls
// return at once, but for Abort, which waits for NCCL's threads and frees its memory; one lock serialises them with it,
// after which the communicator is gone.
#include "solvers/exchange/nccl_collectives.h"

#include "base/format.h"
#include "base/mutex.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace hp {
namespace {

/// Between two questions for what NCCL does by a thread of its own: a sum is in the stream after some microseconds, and
/// to sleep takes 150; what takes longer is worth that.
class Patience {
 public:
  void Wait() {
    const bool soon = std::chrono::steady_clock::now() - begin_ < std::chrono::milliseconds(1);
    soon ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return OkStatus();
  const std::string text = Format("%s: %s (%s)", call, ncclGetErrorString(result), ncclGetLastError(comm));
  // As two replicas on one GPU, which no restart changes.
  if (result == ncclInvalidUsage) return FailedPrecondition("%s", text.c_str());
  return Unavailable("%s", text.c_str());
}

/// @param call whose state it is. @return what became of it: an error of it, or that it can't be asked after.
Status AskState(ncclComm_t comm, const char* call, ncclResult_t* state) {
  HP_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm, state), comm, "ncclCommGetAsyncError"));
  return NcclStatus(*state, comm, call);
}

Status Aborted() { return Unavailable("the exchange was aborted"); }

class Nccl : public Collectives {
 public:
  Nccl(ncclComm_t comm, const NcclOptions& options) : comm_(comm), options_(options) {}

  // Destroying waits for the other replicas, which may be gone; what is under way has been waited for by then.
  ~Nccl() override { Abort(); }

  Status AllReduce(std::span<const std::span<float>> values) override {
    cudaSetDevice(options_.gpu);
    ncclResult_t state = ncclInProgress;
    {
      MutexLock lock(&mutex_);
      if (aborted_) return Aborted();
      HP_RETURN_IF_ERROR(Begin(values, &state));
    }
    // Until they are in the stream, the communicator takes no other call.
    for (Patience patience; state == ncclInProgress; patience.Wait()) {
      MutexLock lock(&mutex_);
      if (aborted_) return Aborted();
      HP_RETURN_IF_ERROR(AskState(comm_, "ncclAllReduce", &state));
    }
    return OkStatus();
  }

  Status AsyncError() override {
    MutexLock lock(&mutex_);
    if (aborted_) return OkStatus();
    ncclResult_t state = ncclSuccess;
    return AskState(comm_, "ncclAllReduce", &state);
  }

  void Abort() override {
    MutexLock lock(&mutex_);
    if (!std::exchange(aborted_, true)) ncclCommAbort(comm_);
  }

 private:
  /// A group is ended in any case, or the thread's next calls would belong to it. @return the first error.
  Status Begin(std::span<const std::span<float>> values, ncclResult_t* state) HP_REQUIRES(mutex_) {
    HP_RETURN_IF_ERROR(NcclStatus(ncclGroupStart(), comm_, "ncclGroupStart"));
    Status status;
    for (const std::span<float> sum : values) {
      const ncclResult_t result = ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat, ncclSum, comm_,
                                                static_cast<cudaStream_t>(options_.stream));
      if (status.ok()) status = NcclStatus(result, comm_, "ncclAllReduce");
    }
    *state = ncclGroupEnd();
    return status.ok() ? NcclStatus(*state, comm_, "ncclGroupEnd") : status;
  }

  const ncclComm_t comm_;
  const NcclOptions options_;
  // ncclGroupEnd must return at once (PrepareNccl): Abort waits for it.
  Mutex mutex_;
  bool aborted_ HP_GUARDED_BY(mutex_) = false;  // comm_ is gone
};

StatusOr<ncclUniqueId> AgreeOnId(const NcclOptions& options, Rendezvous* rendezvous) {
  const std::string key = options.key_prefix + "/nccl";
  ncclUniqueId id;
  if (options.rank == 0) {
    HP_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId"));
    HP_RETURN_IF_ERROR(rendezvous->Set(key, std::string(id.internal, sizeof(id.internal))));
    return id;
  }
  HP_ASSIGN_OR_RETURN(const std::string bytes, rendezvous->Get(key));
  if (bytes.size() != sizeof(id.internal)) {
    return Unavailable("the first replica's NCCL id has %zu bytes; expected %zu", bytes.size(), sizeof(id.internal));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

}  // namespace

void PrepareNccl() { setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/1); }

StatusOr<std::unique_ptr<Collectives>> ConnectNccl(const NcclOptions& options, Rendezvous* rendezvous) {
  HP_ASSIGN_OR_RETURN(const ncclUniqueId id, AgreeOnId(options, rendezvous));
  cudaSetDevice(options.gpu);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t state = ncclCommInitRankConfig(&comm, options.size, id, options.rank, &config);
  Status status = NcclStatus(state, comm, "ncclCommInitRankConfig");
  for (Patience patience; status.ok() && state == ncclInProgress;) {
    patience.Wait();
    status = rendezvous->Check();
    if (status.ok()) status = AskState(comm, "ncclCommInitRankConfig", &state);
  }
  if (status.ok()) return std::unique_ptr<Collectives>(std::make_unique<Nccl>(comm, options));
  if (comm != nullptr) ncclCommAbort(comm);
  return status;
}

}  // namespace hp

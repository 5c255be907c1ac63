// Replica 0 makes NCCL's unique id and hands it to the others by the rendezvous; then all join the communicator. It is
// a non-blocking one: what its calls begin is asked after until it is done, so that a wait can end with the job. Calls
// return at once, so one lock may serialise them with Abort, after which the communicator is gone.
#include "solvers/exchange/nccl_collectives.h"

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

constexpr std::chrono::microseconds kAskAgain{100};

Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return OkStatus();
  return Unavailable("%s: %s (%s)", call, ncclGetErrorString(result), ncclGetLastError(comm));
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

  Status AllReduce(std::span<float> values) override {
    cudaSetDevice(options_.gpu);
    ncclResult_t state = ncclInProgress;
    {
      MutexLock lock(&mutex_);
      if (aborted_) return Aborted();
      state = ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, comm_,
                            static_cast<cudaStream_t>(options_.stream));
      HP_RETURN_IF_ERROR(NcclStatus(state, comm_, "ncclAllReduce"));
    }
    // Until it is in the stream, the communicator takes no other call.
    for (; state == ncclInProgress; std::this_thread::sleep_for(kAskAgain)) {
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
  const ncclComm_t comm_;
  const NcclOptions options_;
  // ncclAllReduce must return at once (PrepareNccl): Abort waits for it.
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
  while (status.ok() && state == ncclInProgress) {
    std::this_thread::sleep_for(kAskAgain);
    status = rendezvous->Check();
    if (status.ok()) status = AskState(comm, "ncclCommInitRankConfig", &state);
  }
  if (status.ok()) return std::unique_ptr<Collectives>(std::make_unique<Nccl>(comm, options));
  if (comm != nullptr) ncclCommAbort(comm);
  return status;
}

}  // namespace hp

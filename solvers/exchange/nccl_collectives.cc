// Replica 0 makes NCCL's unique id and hands it to the others by the rendezvous; then all join the communicator. It is
// a non-blocking one: what its calls begin is asked after until it is done, so that a wait can end with the job. Calls
// return at once, but for Abort, which waits for NCCL's threads and frees its memory. All replicas of a process have
// one lock, under which communicators are used, and taken away to be aborted.
#include "solvers/exchange/nccl_collectives.h"

#include "base/format.h"
#include "base/mutex.h"
#include "tensor/several_devices.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
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

/// The replicas of a stage that are in this process. A sum is enqueued when all of them have asked for it, in one
/// group. Else the first one's kernel would occupy its GPU until the others' are there, while their threads may still
/// have to make calls that wait for it (tensor/several_devices.h).
class ReplicasHere {
 public:
  /// Those that share communicator `id`. Any thread.
  static std::shared_ptr<ReplicasHere> Of(const ncclUniqueId& id) {
    static Mutex mutex;
    static std::map<std::string, std::weak_ptr<ReplicasHere>> all;
    MutexLock lock(&mutex);
    std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<ReplicasHere>& known = all[std::string(id.internal, sizeof(id.internal))];
    std::shared_ptr<ReplicasHere> replicas = known.lock();
    if (replicas == nullptr) known = replicas = std::make_shared<ReplicasHere>();
    return replicas;
  }

  /// Before NCCL connects the replica: who is connected knows that all have joined.
  void Join(const NcclOptions& options) {
    MutexLock lock(&mutex_);
    Replica& joined = replicas_[options.rank];
    joined.gpu = options.gpu;
    joined.stream = static_cast<cudaStream_t>(options.stream);
  }

  void Connected(int rank, ncclComm_t comm) {
    MutexLock lock(&mutex_);
    replicas_[rank].comm = comm;
  }

  /// Collectives::AllReduce of this replica.
  Status AllReduce(int rank, CollectiveSum sum) {
    int own_gpu;
    bool several;
    {
      MutexLock lock(&mutex_);
      Replica& own = replicas_[rank];
      if (own.comm == nullptr) return Aborted();
      HP_RETURN_IF_ERROR(failure_);
      if (lost_) return OkStatus();  // as if it had been lost elsewhere: the sum is never done
      own.asked.push_back(std::move(sum));
      if (!TakeNext()) return OkStatus();
      own_gpu = own.gpu;
      several = replicas_.size() > 1;
    }
    // From here until it is in the streams nobody else begins one: the others wait for what this replica asks for next.
    // Without the mutex, since the calls that this waits for may end by Abort alone.
    std::optional<LaunchOnSeveralDevices> launch;
    if (several) launch.emplace();
    Begin();
    const Status status = Finish(rank);
    cudaSetDevice(own_gpu);
    return status;
  }

  /// Collectives::AsyncError.
  Status AsyncError(int rank) {
    MutexLock lock(&mutex_);
    const ncclComm_t comm = replicas_[rank].comm;
    if (comm == nullptr) return OkStatus();
    HP_RETURN_IF_ERROR(failure_);
    ncclResult_t state = ncclSuccess;
    return AskState(comm, "ncclAllReduce", &state);
  }

  /// Collectives::Abort.
  void Abort(int rank) {
    ncclComm_t comm;
    {
      MutexLock lock(&mutex_);
      lost_ = true;
      comm = std::exchange(replicas_[rank].comm, nullptr);
    }
    if (comm != nullptr) ncclCommAbort(comm);  // nobody else has it now
  }

 private:
  struct Replica {
    int gpu = 0;
    cudaStream_t stream = nullptr;
    ncclComm_t comm = nullptr;        // null: not connected yet, or aborted
    std::deque<CollectiveSum> asked;  // by this replica and not yet by all
    CollectiveSum next;               // which all have asked for
  };

  /// Takes the first sum of each replica. @return false: one has not asked for it.
  bool TakeNext() HP_REQUIRES(mutex_) {
    for (const auto& [rank, replica] : replicas_) {
      if (replica.asked.empty()) return false;
    }
    for (auto& [rank, replica] : replicas_) {
      replica.next = std::move(replica.asked.front());
      replica.asked.pop_front();
    }
    return true;
  }

  void Begin() {
    MutexLock lock(&mutex_);
    if (lost_) return;
    for (const auto& [rank, replica] : replicas_) {
      cudaSetDevice(replica.gpu);
      replica.next.before();
    }
    failure_ = Group();
  }

  /// A group is ended in any case, or the thread's next calls would belong to it. @return the first error.
  Status Group() HP_REQUIRES(mutex_) {
    HP_RETURN_IF_ERROR(NcclStatus(ncclGroupStart(), nullptr, "ncclGroupStart"));
    Status status;
    for (const auto& [rank, replica] : replicas_) {
      cudaSetDevice(replica.gpu);
      for (const std::span<float> sum : replica.next.values) {
        const ncclResult_t result =
            ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclFloat, ncclSum, replica.comm, replica.stream);
        if (status.ok()) status = NcclStatus(result, replica.comm, "ncclAllReduce");
      }
    }
    const ncclResult_t result = ncclGroupEnd();
    return status.ok() ? NcclStatus(result, nullptr, "ncclGroupEnd") : status;
  }

  /// Waits until what Begin began is in the streams; until then the communicators take no other call.
  Status Finish(int rank) {
    for (Patience patience;; patience.Wait()) {
      MutexLock lock(&mutex_);
      HP_RETURN_IF_ERROR(failure_);
      if (lost_) return replicas_[rank].comm == nullptr ? Aborted() : OkStatus();
      bool pending = false;
      for (const auto& [other, replica] : replicas_) {
        ncclResult_t state = ncclSuccess;
        failure_ = AskState(replica.comm, "ncclAllReduce", &state);
        HP_RETURN_IF_ERROR(failure_);
        pending |= state == ncclInProgress;
      }
      if (pending) continue;
      for (const auto& [other, replica] : replicas_) {
        cudaSetDevice(replica.gpu);
        replica.next.after();
      }
      return OkStatus();
    }
  }

  // NCCL's calls under it return at once (PrepareNccl): Abort waits for it.
  Mutex mutex_;
  std::map<int, Replica> replicas_ HP_GUARDED_BY(mutex_);  // by rank
  bool lost_ HP_GUARDED_BY(mutex_) = false;                // one of them was aborted: no sum can be done any more
  Status failure_ HP_GUARDED_BY(mutex_);                   // what NCCL said, to all of them
};

class Nccl : public Collectives {
 public:
  Nccl(std::shared_ptr<ReplicasHere> replicas, int rank) : replicas_(std::move(replicas)), rank_(rank) {}

  // Destroying waits for the other replicas, which may be gone; what is under way has been waited for by then.
  ~Nccl() override { Abort(); }

  Status AllReduce(CollectiveSum sum) override { return replicas_->AllReduce(rank_, std::move(sum)); }
  Status AsyncError() override { return replicas_->AsyncError(rank_); }
  void Abort() override { replicas_->Abort(rank_); }

 private:
  const std::shared_ptr<ReplicasHere> replicas_;
  const int rank_;
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
  std::shared_ptr<ReplicasHere> replicas = ReplicasHere::Of(id);
  replicas->Join(options);
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
  if (status.ok()) {
    replicas->Connected(options.rank, comm);
    return std::unique_ptr<Collectives>(std::make_unique<Nccl>(std::move(replicas), options.rank));
  }
  if (comm != nullptr) ncclCommAbort(comm);
  return status;
}

}  // namespace hp

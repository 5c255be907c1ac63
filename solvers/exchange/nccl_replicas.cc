#include "solvers/exchange/nccl_replicas.h"

#include "solvers/exchange/nccl_calls.h"
#include "tensor/several_devices.h"

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace hp {
namespace {

Status Aborted() { return Unavailable("the exchange was aborted"); }

}  // namespace

std::shared_ptr<ReplicasHere> ReplicasHere::Of(const ncclUniqueId& id) {
  static Mutex mutex;
  static std::map<std::string, std::weak_ptr<ReplicasHere>> all;
  MutexLock lock(&mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<ReplicasHere>& known = all[std::string(id.internal, sizeof(id.internal))];
  std::shared_ptr<ReplicasHere> replicas = known.lock();
  if (replicas == nullptr) known = replicas = std::make_shared<ReplicasHere>();
  return replicas;
}

void ReplicasHere::Join(int rank, int gpu, cudaStream_t stream) {
  MutexLock lock(&mutex_);
  Replica& joined = replicas_[rank];
  joined.gpu = gpu;
  joined.stream = stream;
}

void ReplicasHere::Connected(int rank, ncclComm_t comm) {
  MutexLock lock(&mutex_);
  replicas_[rank].comm = comm;
}

Status ReplicasHere::AllReduce(int rank, CollectiveSum sum) {
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

Status ReplicasHere::AsyncError(int rank) {
  MutexLock lock(&mutex_);
  const ncclComm_t comm = replicas_[rank].comm;
  if (comm == nullptr) return OkStatus();
  HP_RETURN_IF_ERROR(failure_);
  ncclResult_t state = ncclSuccess;
  return AskNcclState(comm, "ncclAllReduce", &state);
}

void ReplicasHere::Abort(int rank) {
  ncclComm_t comm;
  {
    MutexLock lock(&mutex_);
    lost_ = true;
    comm = std::exchange(replicas_[rank].comm, nullptr);
  }
  if (comm != nullptr) ncclCommAbort(comm);  // nobody else has it now
}

bool ReplicasHere::TakeNext() {
  for (const auto& [rank, replica] : replicas_) {
    if (replica.asked.empty()) return false;
  }
  for (auto& [rank, replica] : replicas_) {
    replica.next = std::move(replica.asked.front());
    replica.asked.pop_front();
  }
  return true;
}

void ReplicasHere::Begin() {
  MutexLock lock(&mutex_);
  if (lost_) return;
  for (const auto& [rank, replica] : replicas_) {
    cudaSetDevice(replica.gpu);
    replica.next.before();
  }
  failure_ = Group();
}

// A group is ended in any case, or the thread's next calls would belong to it.
Status ReplicasHere::Group() {
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

Status ReplicasHere::Finish(int rank) {
  for (NcclPatience patience;; patience.Wait()) {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(failure_);
    if (lost_) return replicas_[rank].comm == nullptr ? Aborted() : OkStatus();
    bool pending = false;
    for (const auto& [other, replica] : replicas_) {
      ncclResult_t state = ncclSuccess;
      failure_ = AskNcclState(replica.comm, "ncclAllReduce", &state);
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

}  // namespace hp

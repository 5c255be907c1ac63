#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "solvers/exchange/collective_exchange.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <deque>
#include <map>
#include <memory>

namespace hp {

/// The replicas of a stage that are in this process, by their ranks in NCCL's communicator. A sum is enqueued when all
/// of them have asked for it, in one group. Else the first one's kernel would occupy its GPU until the others' are
/// there, while their threads may still have to make calls that wait for it (tensor/several_devices.h). Once one is
/// aborted there are no more sums. Any thread.
class ReplicasHere {
 public:
  /// Those that share communicator `id`.
  static std::shared_ptr<ReplicasHere> Of(const ncclUniqueId& id);

  /// Before NCCL connects the replica: who is connected knows that all have joined.
  void Join(int rank, int gpu, cudaStream_t stream) HP_EXCLUDES(mutex_);
  void Connected(int rank, ncclComm_t comm) HP_EXCLUDES(mutex_);

  // Collectives' of a replica that is connected.
  Status AllReduce(int rank, CollectiveSum sum) HP_EXCLUDES(mutex_);
  Status AsyncError(int rank) HP_EXCLUDES(mutex_);
  void Abort(int rank) HP_EXCLUDES(mutex_);

 private:
  struct Replica {
    int gpu = 0;
    cudaStream_t stream = nullptr;
    ncclComm_t comm = nullptr;        // null: not connected yet, or aborted
    std::deque<CollectiveSum> asked;  // by this replica and not yet by all
    CollectiveSum next;               // which all have asked for
  };

  /// Takes the first sum of each replica. @return false: one has not asked for it.
  bool TakeNext() HP_REQUIRES(mutex_);
  void Begin() HP_EXCLUDES(mutex_);
  /// The group of sums. @return the first error.
  Status Group() HP_REQUIRES(mutex_);
  /// Waits until what Begin began is in the streams; until then the communicators take no other call.
  /// @param rank of the replica whose thread it is.
  Status Finish(int rank) HP_EXCLUDES(mutex_);

  // NCCL's calls under it return at once (PrepareNccl): Abort waits for it.
  Mutex mutex_;
  std::map<int, Replica> replicas_ HP_GUARDED_BY(mutex_);  // by rank
  bool lost_ HP_GUARDED_BY(mutex_) = false;                // one of them was aborted: no sum can be done any more
  Status failure_ HP_GUARDED_BY(mutex_);                   // what NCCL said, to all of them
};

}  // namespace hp

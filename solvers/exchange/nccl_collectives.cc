// Replica 0 makes NCCL's unique id and hands it to the others by the rendezvous; then all join the communicator. It is
// a non-blocking one: what its calls begin is asked after until it is done, so that a wait can end with the job. Calls
// return at once, but for Abort, which waits for NCCL's threads and frees its memory. All replicas of a process have
// one lock, under which communicators are used, and taken away to be aborted.
#include "solvers/exchange/nccl_collectives.h"

#include "solvers/exchange/nccl_calls.h"
#include "solvers/exchange/nccl_replicas.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace hp {
namespace {

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
  replicas->Join(options.rank, options.gpu, static_cast<cudaStream_t>(options.stream));
  cudaSetDevice(options.gpu);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t state = ncclCommInitRankConfig(&comm, options.size, id, options.rank, &config);
  Status status = NcclStatus(state, comm, "ncclCommInitRankConfig");
  for (NcclPatience patience; status.ok() && state == ncclInProgress;) {
    patience.Wait();
    status = rendezvous->Check();
    if (status.ok()) status = AskNcclState(comm, "ncclCommInitRankConfig", &state);
  }
  if (status.ok()) {
    replicas->Connected(options.rank, comm);
    return std::unique_ptr<Collectives>(std::make_unique<Nccl>(std::move(replicas), options.rank));
  }
  if (comm != nullptr) ncclCommAbort(comm);
  return status;
}

}  // namespace hp

#include "tools/cluster/allocation.h"

#include "base/environment.h"

namespace hp {
namespace {

struct Scheduler {
  const char* variable;
  const char* name;
  const char* instead;
};

constexpr Scheduler kSchedulers[] = {
    {"SLURM_JOB_ID", "Slurm", "sbatch --requeue"},
    {"OMPI_COMM_WORLD_SIZE", "Open MPI", "a second mpirun"},
    {"PMIX_RANK", "PMIx", "a second start by the scheduler"},
    {"KUBERNETES_SERVICE_HOST", "Kubernetes", "the Job's backoffLimit"},
};

}  // namespace

Status CheckRestarts(int max_restarts) {
  if (max_restarts < 0) return InvalidArgument("--max_restarts is %d; expected 0 or more", max_restarts);
  if (max_restarts == 0) return OkStatus();
  for (const Scheduler& scheduler : kSchedulers) {
    if (Environment(scheduler.variable).empty()) continue;
    return FailedPrecondition(
        "--max_restarts=%d inside an allocation of %s (%s is set): whoever started the nodes restarts them, so that "
        "two of them never do; use %s",
        max_restarts, scheduler.name, scheduler.variable, scheduler.instead);
  }
  return OkStatus();
}

}  // namespace hp

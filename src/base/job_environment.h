#pragma once

#include "base/environment.h"
#include "hp/status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace hp {

/// What a scheduler or launcher says, in the environment of the processes that it starts, of who they are. No library
/// of a scheduler is linked, and none of its programs is called.
struct JobEnvironment {
  /// Who made this process a task: "Open MPI", "Slurm", "PMIx", "RANK and WORLD_SIZE" or "Kubernetes"; empty: nobody.
  std::string launcher;
  int task = -1;           ///< its index among the tasks, from 0; -1: it is no task
  int tasks = 0;           ///< how many there are; 0: the launcher does not say
  int local_task = -1;     ///< its index among the tasks of its host; -1: the launcher does not say
  std::string task_from;   ///< the variable that `task` is from, for messages
  std::string tasks_from;  ///< the variable that `tasks` is from, for messages
  /// The scheduler's job that this process runs in, as a task or beside the tasks ("Slurm job 12"); empty: none known.
  std::string allocation;
  /// What tells this launch of tasks from all others ("Slurm job 12", "Open MPI job 3042377729"); empty: the launcher
  /// does not say, or nobody made this process a task.
  std::string run;
  int restarts = 0;        ///< how often the scheduler has started the job again
  int64_t end_time_s = 0;  ///< when the allocation ends, in seconds since 1970; 0: not known

  bool is_task() const { return task >= 0; }
  /// "task 1 of 4 (Slurm job 12, restart 1)"; only for a task.
  std::string Describe() const;
};

/// Reads a variable, as Environment; empty if it is not set.
using EnvironmentReader = std::function<std::string(const char* name)>;

/// The environment of this process. The first of these that is there makes it a task, so that a launcher which another
/// one has started wins:
///   Open MPI     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK (mpirun)
///   Slurm        SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID (srun; a batch script itself is no task)
///   PMIx         PMIX_RANK (prun)
///   RANK         RANK, WORLD_SIZE, LOCAL_RANK (torchrun)
///   Kubernetes   JOB_COMPLETION_INDEX, WORLD_SIZE (an indexed Job; only a manifest can say how many pods it has)
/// Restarts are SLURM_RESTART_COUNT, the end time is SLURM_JOB_END_TIME. `run` is PMIX_NAMESPACE of Open MPI and PMIx,
/// SLURM_JOB_ID, TORCHELASTIC_RUN_ID of RANK.
/// @return kInvalidArgument: a variable is no number in its range; the message names it.
StatusOr<JobEnvironment> ReadJobEnvironment(const EnvironmentReader& read = Environment);

}  // namespace hp

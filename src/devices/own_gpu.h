#pragma once

#include "base/job_environment.h"
#include "hp/status.h"

namespace hp {

/// Which of the GPUs that this process sees its scheduler has given to it, for a node whose table says device: "cuda".
/// That is the only one of CUDA_VISIBLE_DEVICES, as Slurm sets it for srun --gpus-per-task=1; else the one of the
/// task's index on its host (SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK, LOCAL_RANK); else the only one.
/// @param gpus how many GPUs CUDA shows to this process.
/// @return its index among them. kNotFound: there are fewer GPUs than that; kInvalidArgument: there are several, and
/// nobody says which.
StatusOr<int> OwnGpu(const JobEnvironment& job, int gpus, const EnvironmentReader& read = Environment);

}  // namespace hp

#include "devices/own_gpu.h"

namespace hp {
namespace {

/// CUDA shows the devices of this list only, in its order.
bool IsOneDevice(const std::string& visible) { return !visible.empty() && visible.find(',') == visible.npos; }

}  // namespace

StatusOr<int> OwnGpu(const JobEnvironment& job, int gpus, const EnvironmentReader& read) {
  const bool given = IsOneDevice(read("CUDA_VISIBLE_DEVICES"));
  const int index = given || job.local_task < 0 ? 0 : job.local_task;
  if (index >= gpus) {
    return NotFound(
        "device cuda: this is task %d of its host, counted from 0, and sees %d GPU(s); expected one for "
        "each task (srun --gpus-per-task=1)",
        index, gpus);
  }
  if (given || job.local_task >= 0 || gpus == 1) return index;
  return InvalidArgument(
      "device cuda: this process sees %d GPUs, and no scheduler says which is its own; expected "
      "device: \"cuda:N\" or one device in CUDA_VISIBLE_DEVICES",
      gpus);
}

}  // namespace hp

#include "backend/cuda/cudnn_timer.h"

#include "backend/cuda/engine_timer.h"

#include <utility>
#include <vector>

namespace hp {

StatusOr<double> TimeCudnnPlan(Gpu* gpu, cudnnHandle_t handle, const CudnnPlan& plan) {
  std::vector<Buffer> memory;
  std::vector<std::pair<int64_t, const void*>> pointers;
  for (const CudnnPlan::Tensor& tensor : plan.tensors()) {
    HP_ASSIGN_OR_RETURN(Buffer numbers, AllocateNumbers(gpu, tensor.bytes));
    pointers.emplace_back(tensor.id, numbers.data());
    memory.push_back(std::move(numbers));
  }
  HP_ASSIGN_OR_RETURN(const Buffer workspace, gpu->Allocate(plan.workspace_bytes()));
  return LeastMilliseconds(gpu, [&] { return plan.Run(handle, pointers, workspace.data()); });
}

}  // namespace hp

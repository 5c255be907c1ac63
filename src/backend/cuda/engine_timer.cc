#include "backend/cuda/engine_timer.h"

#include "backend/cuda/cuda_status.h"
#include "base/philox.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace hp {
namespace {

constexpr int kRounds = 3, kRunsOfRound = 4;
constexpr size_t kPatternBytes = 1 << 20;

/// 1 to 2 as bfloat16 and, in pairs, as float32; 1.87 to 2 as float16; of either sign.
uint16_t NumberOf(uint32_t random) { return static_cast<uint16_t>(0x3F80 | (random & 0x807F)); }

std::vector<uint16_t> Pattern(size_t bytes) {
  std::vector<uint16_t> numbers((bytes + 1) / 2);
  for (size_t i = 0; i < numbers.size(); i += 4) {
    const auto random = Philox4x32(0, 0, i);
    for (size_t k = i; k < std::min(i + 4, numbers.size()); ++k) numbers[k] = NumberOf(random[k - i]);
  }
  return numbers;
}

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

StatusOr<Event> MakeEvent() {
  cudaEvent_t event = nullptr;
  HP_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreate"));
  return Event(event);
}

}  // namespace

StatusOr<Buffer> AllocateNumbers(Gpu* gpu, size_t bytes) {
  HP_ASSIGN_OR_RETURN(Buffer memory, gpu->Allocate(bytes));
  size_t filled = std::min(bytes, kPatternBytes);
  const std::vector<uint16_t> pattern = Pattern(filled);
  HP_RETURN_IF_ERROR(gpu->CopyNow(memory.data(), pattern.data(), filled));
  for (size_t more; filled < bytes; filled += more) {
    more = std::min(filled, bytes - filled);
    gpu->Copy(Device::kCompute, memory.data() + filled, memory.data(), more);
  }
  return memory;
}

StatusOr<double> LeastMilliseconds(Gpu* gpu, const std::function<Status()>& work) {
  HP_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(gpu->info().index), "cudaSetDevice"));
  HP_ASSIGN_OR_RETURN(const Event begin, MakeEvent());
  HP_ASSIGN_OR_RETURN(const Event end, MakeEvent());
  const auto stream = static_cast<cudaStream_t>(gpu->stream(Device::kCompute).cuda);
  HP_RETURN_IF_ERROR(work());
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    HP_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin.get(), stream), "cudaEventRecord"));
    for (int run = 0; run < kRunsOfRound; ++run) HP_RETURN_IF_ERROR(work());
    HP_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end.get(), stream), "cudaEventRecord"));
    HP_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end.get()), "cudaEventSynchronize"));
    float ms = 0;
    HP_RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime"));
    least = std::min(least, static_cast<double>(ms) / kRunsOfRound);
  }
  return least;
}

}  // namespace hp

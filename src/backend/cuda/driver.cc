#include "backend/cuda/driver.h"

#include <cuda.h>
#include <cuda_runtime.h>

namespace hp {
namespace {

#if CUDART_VERSION >= 12050
// All functions below are as they were then. A driver may be older than the runtime.
constexpr unsigned kVersion = 12000;
#endif

template <typename Function>
Function* Find(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Function*>(found);
}

}  // namespace

bool DriverExportsDmaBuf(int index) {
  const auto get_attribute = Find<CUresult(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
  const auto get_device = Find<CUresult(CUdevice*, int)>("cuDeviceGet");
  if (get_attribute == nullptr || get_device == nullptr) return false;
  CUdevice device;
  int supported = 0;
  return get_device(&device, index) == CUDA_SUCCESS &&
         get_attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device) == CUDA_SUCCESS && supported != 0;
}

Status DriverExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd) {
  const auto get_handle =
      Find<CUresult(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long)>(  // NOLINT(runtime/int)
          "cuMemGetHandleForAddressRange");
  if (get_handle == nullptr)
    return FailedPrecondition("the driver cannot export memory (no cuMemGetHandleForAddressRange)");
  unsigned long long flags = 0;  // NOLINT(runtime/int)
  if (pcie_mapping) {
#if CUDA_VERSION >= 12080
    flags = CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
#else
    return FailedPrecondition("PCIe mapping of a dma-buf needs a build with CUDA 12.8 or later");
#endif
  }
  const CUresult result =
      get_handle(fd, reinterpret_cast<CUdeviceptr>(memory), bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
  if (result == CUDA_SUCCESS) return OkStatus();
  return FailedPrecondition("cuMemGetHandleForAddressRange: error %d", static_cast<int>(result));
}

Status DriverAllocationOf(const void* memory, const void** begin, size_t* bytes) {
  const auto get_range = Find<CUresult(CUdeviceptr*, size_t*, CUdeviceptr)>("cuMemGetAddressRange");
  if (get_range == nullptr) return FailedPrecondition("the driver has no cuMemGetAddressRange");
  CUdeviceptr base = 0;
  const CUresult result = get_range(&base, bytes, reinterpret_cast<CUdeviceptr>(memory));
  *begin = reinterpret_cast<const void*>(base);
  if (result == CUDA_SUCCESS) return OkStatus();
  return InvalidArgument("cuMemGetAddressRange: error %d", static_cast<int>(result));
}

}  // namespace hp

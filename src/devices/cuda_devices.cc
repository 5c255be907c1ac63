#include "devices/cuda_devices.h"

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/nvjpeg_api.h"
#include "backend/cuda/timed_library.h"
#include "base/format.h"
#include "scheduler/plan/table_places.h"
#include "solvers/exchange/nccl_collectives.h"

#include "devices/own_gpu.h"
#include "glog/logging.h"

#include <charconv>
#include <cstdlib>
#include <utility>

namespace hp {
namespace {

constexpr std::string_view kPrefix = "cuda:";
constexpr int kBFloat16Major = 8;  // compute capability with products of bfloat16

std::string DescribeGpu(const GpuInfo& gpu) {
  if (!gpu.fault.empty()) return Format("cuda:%-2d can't be used now: %s\n", gpu.index, gpu.fault.c_str());
  return Format("cuda:%-2d %s, compute capability %d.%d, %d multiprocessors, %.1f of %.1f GB free, PCIe %s, %s\n",
                gpu.index, gpu.name.c_str(), gpu.major, gpu.minor, gpu.multiprocessors, gpu.free_bytes / 1e9,
                gpu.memory_bytes / 1e9, gpu.pci_address.c_str(),
                gpu.dma_buf ? "exports its memory by dma-buf" : "exports no memory by dma-buf");
}

/// @param name IsDeviceName, of a GPU.
StatusOr<int> IndexOf(const std::string& name) {
  if (name == kOwnGpu) {
    const StatusOr<int> gpus = NumberOfGpus();
    if (!gpus.ok()) return gpus.status().Prepend("device cuda");
    HP_ASSIGN_OR_RETURN(const JobEnvironment job, ReadJobEnvironment());
    return OwnGpu(job, *gpus);
  }
  int index = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), index);
  return index;
}

}  // namespace

GpuMath MathOf(Precision precision) {
  switch (precision) {
    case RoutingTableConfig::TF32:
      return GpuMath::kTf32;
    case RoutingTableConfig::BF16:
      return GpuMath::kBFloat16;
    case RoutingTableConfig::FP16:
      return GpuMath::kFloat16;
    case RoutingTableConfig::AUTO:
      LOG(FATAL) << "AUTO is not decided";
    case RoutingTableConfig::FP32:
      break;
  }
  return GpuMath::kFloat32;
}

DeviceMemory DescribeGpuMemory(Gpu* gpu, const ProcessPlace& place, std::span<std::byte> bytes) {
  DeviceMemory memory;
  memory.bytes = bytes;
  memory.device = gpu->info().index;
  memory.pci_address = gpu->info().pci_address;
  if (gpu->info().dma_buf) {
    memory.export_dma_buf = [gpu, bytes](bool pcie_mapping) -> StatusOr<DmaBuf> {
      DmaBuf exported;
      HP_RETURN_IF_ERROR(gpu->ExportDmaBuf(bytes.data(), bytes.size(), pcie_mapping, &exported.fd, &exported.offset));
      return exported;
    };
  }
  memory.export_handle = [gpu, place, bytes] { return GpuHandleOf(gpu, place, bytes); };
  memory.copy = [gpu](std::byte* to, const std::byte* from, size_t count) { return gpu->CopyNow(to, from, count); };
  return memory;
}

StatusOr<NodeDevice> MakeGpuDevice(std::unique_ptr<Gpu> gpu, const LibraryMaker& make_library, Precision precision,
                                   const ProcessPlace& place) {
  Gpu* const raw = gpu.get();
  NodeDevice device;
  device.make_backend = [raw, make_library](Precision decided) -> StatusOr<std::unique_ptr<Backend>> {
    HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuLibrary> library, make_library(raw, MathOf(decided)));
    return MakeCudaBackend(raw, std::move(library));
  };
  if (precision != RoutingTableConfig::AUTO) {
    HP_ASSIGN_OR_RETURN(device.backend, device.make_backend(precision));
  }
  if (raw->info().major < kBFloat16Major) {
    device.lacks_bfloat16 = Format("%s has compute capability %d.%d, and bfloat16 needs %d.0", raw->info().name.c_str(),
                                   raw->info().major, raw->info().minor, kBFloat16Major);
  }
  device.device = std::move(gpu);
  HP_ASSIGN_OR_RETURN(device.copier, GpuCopier::Create(raw, place));
  device.describe = [raw, place](std::span<std::byte> memory) { return DescribeGpuMemory(raw, place, memory); };
  return device;
}

StatusOr<NodeDevice> OpenNodeDevice(const std::string& name, Precision precision, EngineChoices* engines) {
  if (name == "cpu") return OpenCpu(precision);
  if (!IsDeviceName(name)) return NoSuchDeviceName(name);
  PrepareNccl();
  HP_ASSIGN_OR_RETURN(const int index, IndexOf(name));
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Gpu> gpu, OpenGpu(index));
  Gpu* const raw = gpu.get();
  const auto make_library = [engines](Gpu* opened, GpuMath math) {
    return engines == nullptr ? MakeGpuLibrary(opened, math) : MakeTimedGpuLibrary(opened, math, engines);
  };
  HP_ASSIGN_OR_RETURN(NodeDevice device, MakeGpuDevice(std::move(gpu), make_library, precision));
  device.connect = [raw, index](int rank, int size, Rendezvous* rendezvous) {
    return ConnectNccl({rank, size, "conv", raw->stream(Device::kExchange).cuda, index}, rendezvous);
  };
  return device;
}

void PrepareSumsOnGpus() {
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
}

Status CheckJpegDecoder() { return LoadNvjpeg().status(); }

StatusOr<int> CountGpus() { return NumberOfGpus(); }

std::string DescribeDevices() {
  std::string text = DescribeCpu();
  const StatusOr<std::vector<GpuInfo>> gpus = ListGpus();
  if (!gpus.ok()) return text + "no GPU: " + gpus.status().message() + "\n";
  for (const GpuInfo& gpu : *gpus) text += DescribeGpu(gpu);
  return text;
}

}  // namespace hp

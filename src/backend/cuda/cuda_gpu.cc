// The real GPU, by CUDA's runtime.
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/peer_memory.h"
#include "base/mutex.h"
#include "tensor/several_devices.h"

#include "glog/logging.h"
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

namespace hp {
namespace {

// Smaller blocks come from the driver's pool, which keeps what is given back. Larger ones are arenas that a network
// adapter or another process may be given: of whole driver's blocks, since what shares one would be given with it, and
// begins anywhere.
constexpr size_t kPooledBytes = 1 << 20;
constexpr size_t kDriverBlock = 2 << 20;
constexpr size_t kExportPage = 64 << 10;  // what an adapter takes a multiple of
// What is not free for a node's own plan: modules that are loaded when a kernel first runs, and graphs.
constexpr size_t kKeptFree = 512 << 20;
// Each takes host memory; what does not fit is put into the queue call by call.
constexpr size_t kMaxGraphs = 4096;
// Something else may have spoilt a recording: a call of another thread, or memory that was short for a moment.
constexpr int kMostRefusals = 3;  // of one work

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

StatusOr<GpuInfo> Describe(int index) {
  cudaDeviceProp properties;
  HP_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  GpuInfo info;
  info.index = index;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.memory_bytes = properties.totalGlobalMem;
  info.multiprocessors = properties.multiProcessorCount;
  char address[32] = "";
  HP_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetPCIBusId(address, sizeof(address), index), "cudaDeviceGetPCIBusId"));
  info.pci_address = address;
  std::transform(info.pci_address.begin(), info.pci_address.end(), info.pci_address.begin(), ::tolower);
  info.dma_buf = DriverExportsDmaBuf(index);
  HP_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index), "cudaSetDevice"));
  HP_RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&info.free_bytes, &info.memory_bytes), "cudaMemGetInfo"));
  return info;
}

class CudaGpu : public Gpu {
 public:
  explicit CudaGpu(GpuInfo info) : info_(std::move(info)), peers_(info_.index) {}
  ~CudaGpu() override;
  Status Open();

  std::string name() const override { return "cuda:" + std::to_string(info_.index); }
  const GpuInfo& info() const override { return info_; }
  size_t free_bytes() const override;
  StatusOr<Buffer> Allocate(size_t bytes) override { return Allocate(bytes, bytes < kPooledBytes); }
  StatusOr<Buffer> AllocateShared(size_t bytes) override { return Allocate(bytes, false); }
  StatusOr<Buffer> AllocateHost(size_t bytes) override;
  void Upload(Queue queue, void* to, const void* from, size_t bytes) override {
    CopyAs(cudaMemcpyHostToDevice, queue, to, from, bytes);
  }
  void Download(Queue queue, void* to, const void* from, size_t bytes) override {
    CopyAs(cudaMemcpyDeviceToHost, queue, to, from, bytes);
  }
  void Copy(Queue queue, void* to, const void* from, size_t bytes) override {
    CopyAs(cudaMemcpyDeviceToDevice, queue, to, from, bytes);
  }
  void Order(Queue first, Queue then) override;
  Mark Record(Queue queue) override HP_EXCLUDES(mutex_);
  void Follow(Mark mark, Queue then) override HP_EXCLUDES(mutex_);
  Status Wait(Mark mark) override HP_EXCLUDES(mutex_);
  Status Synchronize() override HP_EXCLUDES(mutex_);
  void RunCaptured(const CaptureKey& key, const std::function<void()>& work) override;
  void BeginRange(const std::string& name) override { nvtxRangePushA(name.c_str()); }
  void EndRange() override { nvtxRangePop(); }
  GpuStream stream(Queue queue) override { return {.cuda = streams_[queue], .host = nullptr}; }
  Status ExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd, uint64_t* offset) override;
  Status CopyNow(void* to, const void* from, size_t bytes) override;
  Status CanReach(const std::string& pci_address) override { return peers_.CanReach(pci_address); }
  StatusOr<GpuIpcMemory> ExportIpc(const void* memory) override { return peers_.ExportIpc(memory); }
  StatusOr<void*> OpenIpc(const GpuIpcMemory& memory, size_t bytes) override { return peers_.OpenIpc(memory, bytes); }
  void CloseIpc(void* opened) override { peers_.CloseIpc(opened); }
  Status OpenHere(void* memory, size_t bytes) override { return peers_.OpenHere(memory, bytes); }
  void CopyAcross(Queue queue, void* to, const void* from, size_t bytes) override {
    CopyAs(cudaMemcpyDefault, queue, to, from, bytes);
  }
  void Fail(const Status& status) override HP_EXCLUDES(mutex_);

 private:
  void Use() const { cudaSetDevice(info_.index); }
  /// @param pooled from the driver's pool, which a network adapter or another process can't be given.
  StatusOr<Buffer> Allocate(size_t bytes, bool pooled);
  /// Keeps the first error: from then on Wait and Synchronize say it.
  void Note(cudaError_t error, const char* call) HP_EXCLUDES(mutex_);
  Status failure() const HP_EXCLUDES(mutex_);
  void CopyAs(cudaMemcpyKind kind, Queue queue, void* to, const void* from, size_t bytes);
  cudaEvent_t TakeEvent() HP_EXCLUDES(mutex_);
  /// The event of a mark, which is none any more.
  cudaEvent_t Unmark(Mark mark) HP_EXCLUDES(mutex_);
  void GiveBack(cudaEvent_t event) HP_EXCLUDES(mutex_);
  /// @return null: it could not be recorded, and was put into the queue directly or failed.
  cudaGraphExec_t RecordGraph(const std::function<void()>& work) HP_EXCLUDES(mutex_);
  /// @return what failed on the recorder's thread meanwhile.
  Status SetRecorder(std::thread::id thread) HP_EXCLUDES(mutex_);

  const GpuInfo info_;
  PeerMemory peers_;
  cudaStream_t streams_[kQueues] = {};
  struct Recording {
    cudaGraphExec_t graph = nullptr;  // null: not recorded yet
    int refusals = 0;
  };
  std::map<CaptureKey, Recording> recordings_;  // of what was run at least once. Executor thread

  mutable Mutex mutex_;
  std::vector<cudaEvent_t> free_events_ HP_GUARDED_BY(mutex_);
  std::map<Mark, cudaEvent_t> marks_ HP_GUARDED_BY(mutex_);
  Mark last_mark_ HP_GUARDED_BY(mutex_) = 0;
  Status failure_ HP_GUARDED_BY(mutex_);
  std::thread::id recorder_ HP_GUARDED_BY(mutex_);  // the thread that records, while it does
  Status recording_failure_ HP_GUARDED_BY(mutex_);
};

Status CudaGpu::Open() {
  HP_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(info_.index), "cudaSetDevice"));
  for (cudaStream_t& stream : streams_) {
    HP_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
  }
  cudaMemPool_t pool;
  HP_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetDefaultMemPool(&pool, info_.index), "cudaDeviceGetDefaultMemPool"));
  uint64_t keep_all = UINT64_MAX;
  return CudaStatus(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all),
                    "cudaMemPoolSetAttribute");
}

// Waits for its own streams alone: a wait for the whole GPU would spoil what another CudaGpu of the process records.
CudaGpu::~CudaGpu() {
  Use();
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamSynchronize(stream);
  }
  for (const auto& [key, recording] : recordings_) {
    if (recording.graph != nullptr) cudaGraphExecDestroy(recording.graph);
  }
  MutexLock lock(&mutex_);
  for (cudaEvent_t event : free_events_) cudaEventDestroy(event);
  for (const auto& [mark, event] : marks_) cudaEventDestroy(event);
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
}

void CudaGpu::Note(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  Fail(CudaStatus(error, call).Prepend(name()));
}

void CudaGpu::Fail(const Status& status) {
  MutexLock lock(&mutex_);
  // What can't be recorded is done directly instead.
  Status* const kept = recorder_ == std::this_thread::get_id() ? &recording_failure_ : &failure_;
  if (kept->ok()) *kept = status;
}

Status CudaGpu::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

// --- Memory

size_t CudaGpu::free_bytes() const {
  Use();
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return free > kKeptFree ? free - kKeptFree : 1;
}

StatusOr<Buffer> CudaGpu::Allocate(size_t bytes, bool pooled) {
  if (bytes == 0) return Buffer();
  Use();
  const cudaStream_t stream = streams_[kCompute];
  void* memory = nullptr;
  cudaError_t error;
  {
    const CallThatMayWaitForDevices call;
    error = pooled ? cudaMallocAsync(&memory, bytes, stream) : cudaMalloc(&memory, RoundUp(bytes, kDriverBlock));
  }
  if (error != cudaSuccess) {
    cudaGetLastError();
    return ResourceExhausted("%s: cannot allocate %.1f MB: %s", name().c_str(), bytes / 1e6, cudaGetErrorString(error));
  }
  Buffer buffer(static_cast<std::byte*>(memory), bytes, [this, pooled](std::byte* data, size_t) {
    Use();
    const CallThatMayWaitForDevices free;
    pooled ? cudaFreeAsync(data, streams_[kCompute]) : cudaFree(data);
  });
  HP_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync"));
  HP_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  return buffer;
}

StatusOr<Buffer> CudaGpu::AllocateHost(size_t bytes) {
  if (bytes == 0) return Buffer();
  Use();
  const CallThatMayWaitForDevices call;
  void* memory = nullptr;
  if (const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable); error != cudaSuccess) {
    cudaGetLastError();
    return ResourceExhausted("cannot allocate %.1f MB of pinned host memory: %s", bytes / 1e6,
                             cudaGetErrorString(error));
  }
  std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
  return Buffer(static_cast<std::byte*>(memory), bytes, [index = info_.index](std::byte* data, size_t) {
    cudaSetDevice(index);
    const CallThatMayWaitForDevices free;
    cudaFreeHost(data);
  });
}

void CudaGpu::CopyAs(cudaMemcpyKind kind, Queue queue, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  Use();
  Note(cudaMemcpyAsync(to, from, bytes, kind, streams_[queue]), "cudaMemcpyAsync");
}

Status CudaGpu::CopyNow(void* to, const void* from, size_t bytes) {
  Use();
  // cudaMemcpy may return while pageable memory is still on its way to the device.
  const cudaStream_t stream = cudaStreamPerThread;
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return CudaStatus(error, "cudaMemcpyAsync").Prepend(name());
}

Status CudaGpu::ExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd, uint64_t* offset) {
  Use();
  *offset = 0;
  return DriverExportDmaBuf(memory, RoundUp(bytes, kExportPage), pcie_mapping, fd).Prepend(name());
}

// --- Order

cudaEvent_t CudaGpu::TakeEvent() {
  Use();
  cudaEvent_t event = nullptr;
  {
    MutexLock lock(&mutex_);
    if (!free_events_.empty()) {
      event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  // Blocking: a thread that waits for a GPU takes no core from those that read records.
  Note(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync), "cudaEventCreate");
  return event;
}

void CudaGpu::Order(Queue first, Queue then) {
  const cudaEvent_t event = TakeEvent();
  Note(cudaEventRecord(event, streams_[first]), "cudaEventRecord");
  Note(cudaStreamWaitEvent(streams_[then], event, 0), "cudaStreamWaitEvent");
  GiveBack(event);  // the wait has taken the event's state: it can be recorded again
}

Device::Mark CudaGpu::Record(Queue queue) {
  Note(cudaGetLastError(), "kernel launch");  // which returns nothing itself
  const cudaEvent_t event = TakeEvent();
  Note(cudaEventRecord(event, streams_[queue]), "cudaEventRecord");
  MutexLock lock(&mutex_);
  marks_[++last_mark_] = event;
  return last_mark_;
}

cudaEvent_t CudaGpu::Unmark(Mark mark) {
  MutexLock lock(&mutex_);
  const auto found = marks_.find(mark);
  CHECK(found != marks_.end()) << "mark " << mark << " was waited for before";
  const cudaEvent_t event = found->second;
  marks_.erase(found);
  return event;
}

void CudaGpu::GiveBack(cudaEvent_t event) {
  MutexLock lock(&mutex_);
  free_events_.push_back(event);
}

void CudaGpu::Follow(Mark mark, Queue then) {
  Use();
  const cudaEvent_t event = Unmark(mark);
  Note(cudaStreamWaitEvent(streams_[then], event, 0), "cudaStreamWaitEvent");
  GiveBack(event);
}

Status CudaGpu::Wait(Mark mark) {
  Use();
  const cudaEvent_t event = Unmark(mark);
  Note(cudaEventSynchronize(event), "earlier asynchronous work");
  GiveBack(event);
  return failure();
}

Status CudaGpu::Synchronize() {
  Use();
  Note(cudaGetLastError(), "kernel launch");
  for (cudaStream_t stream : streams_) Note(cudaStreamSynchronize(stream), "earlier asynchronous work");
  return failure();
}

// --- Captured work

void CudaGpu::RunCaptured(const CaptureKey& key, const std::function<void()>& work) {
  Use();
  const auto [entry, first] = recordings_.try_emplace(key);
  if (first) return work();
  Recording& recording = entry->second;
  if (recording.graph == nullptr && recordings_.size() <= kMaxGraphs && recording.refusals < kMostRefusals) {
    recording.graph = RecordGraph(work);
    recording.refusals += recording.graph == nullptr;
  }
  if (recording.graph == nullptr) return work();
  Note(cudaGraphLaunch(recording.graph, streams_[kCompute]), "cudaGraphLaunch");
}

cudaGraphExec_t CudaGpu::RecordGraph(const std::function<void()>& work) {
  const cudaStream_t stream = streams_[kCompute];
  // Thread-local: other threads go on with their copies.
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  cudaGraphExec_t executable = nullptr;
  Status refused;
  if (error == cudaSuccess) {
    (void)SetRecorder(std::this_thread::get_id());
    work();
    refused = SetRecorder({});
    cudaGraph_t graph = nullptr;
    error = cudaStreamEndCapture(stream, &graph);
    const CallThatMayWaitForDevices call;
    if (error == cudaSuccess && refused.ok()) error = cudaGraphInstantiate(&executable, graph, 0);
    if (executable != nullptr) error = cudaGraphUpload(executable, stream);  // else the first launch does
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  if (executable != nullptr && error == cudaSuccess) return executable;
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  cudaGetLastError();
  if (refused.ok()) refused = CudaStatus(error, "graph capture");
  LOG_FIRST_N(WARNING, 10) << name() << ": CUDA graph capture failed, launching kernels one by one: " << refused;
  return nullptr;
}

Status CudaGpu::SetRecorder(std::thread::id thread) {
  MutexLock lock(&mutex_);
  recorder_ = thread;
  return std::exchange(recording_failure_, OkStatus());
}

}  // namespace

namespace {

/// CUDA says "driver version is insufficient" where there is no driver at all.
}  // namespace

StatusOr<int> NumberOfGpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  return FailedPrecondition("%s (run nvidia-smi to see which driver is installed)", cudaGetErrorString(error));
}

StatusOr<std::vector<GpuInfo>> ListGpus() {
  HP_ASSIGN_OR_RETURN(const int count, NumberOfGpus());
  std::vector<GpuInfo> gpus;
  for (int index = 0; index < count; ++index) {
    StatusOr<GpuInfo> info = Describe(index);
    if (!info.ok()) {
      GpuInfo other;
      other.index = index;
      other.fault = info.status().message();
      info = std::move(other);
    }
    gpus.push_back(*std::move(info));
  }
  return gpus;
}

StatusOr<std::unique_ptr<Gpu>> OpenGpu(int index) {
  const StatusOr<int> counted = NumberOfGpus();
  if (!counted.ok()) return counted.status().Prepend("device cuda:" + std::to_string(index));
  const int count = *counted;
  if (index < 0 || index >= count) return NotFound("device cuda:%d: this host has %d GPU(s)", index, count);
  HP_ASSIGN_OR_RETURN(GpuInfo info, Describe(index));
  auto gpu = std::make_unique<CudaGpu>(std::move(info));
  HP_RETURN_IF_ERROR(gpu->Open());
  return std::unique_ptr<Gpu>(std::move(gpu));
}

}  // namespace hp

#include "test/support/fake_cuda.h"

#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace hp::test::fake_cuda {
namespace {

using Work = std::function<void()>;

struct Stream {
  int device = 0;
  bool recording = false, spoilt = false;
  std::thread::id recorder;
  std::vector<Work> recorded;
};
struct Event {
  int device = 0;
  bool recorded = false, timed = false;
  double at_ms = 0;
};
struct Graph {
  std::vector<Work> work;
};

struct Host {
  int gpus = 0;
  bool reach = true;
  double now_ms = 0;
  std::set<std::pair<int, int>> peers;  // whose memory is open to whom
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs;
  std::map<std::byte*, Block> blocks;
  std::map<std::string, int> calls;
  std::map<std::string, cudaError_t> failures;
  std::vector<std::string> misuses;
};

std::recursive_mutex mutex;
Host host;
thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

/// Everything that a function of CUDA does: counted, and its error kept.
cudaError_t Call(const std::string& function, const std::function<cudaError_t()>& body) {
  const std::lock_guard lock(mutex);
  ++host.calls[function];
  cudaError_t error = cudaSuccess;
  if (const auto failure = host.failures.extract(function)) {
    error = failure.mapped();
  } else {
    error = body();
  }
  if (error != cudaSuccess) last_error = error;
  return error;
}

void Misuse(const std::string& what) { host.misuses.push_back(what); }

void NeedCurrent(int device, const std::string& function) {
  if (device != current) {
    Misuse(function + " for GPU " + std::to_string(device) + " while " + std::to_string(current) + " is current");
  }
}

/// The stream of this thread on its device, which is always there.
Stream* StreamOf(cudaStream_t handle, const std::string& function) {
  static thread_local Stream own;
  auto* const stream = reinterpret_cast<Stream*>(handle);
  if (handle == cudaStreamPerThread) {
    own.device = current;
    return &own;
  }
  if (!host.streams.contains(stream)) {
    Misuse(function + " in a stream that is not there");
    return nullptr;
  }
  NeedCurrent(stream->device, function);
  return stream;
}

Event* EventOf(cudaEvent_t handle, const std::string& function) {
  auto* const event = reinterpret_cast<Event*>(handle);
  if (!host.events.contains(event)) {
    Misuse(function + " of an event that is not there");
    return nullptr;
  }
  NeedCurrent(event->device, function);
  return event;
}

cudaError_t Put(cudaStream_t handle, const std::string& function, const Work& work) {
  Stream* const stream = StreamOf(handle, function);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->recording) {
    stream->recorded.push_back(work);
  } else {
    work();
  }
  return cudaSuccess;
}

/// What waits or allocates has no place in a recording of this thread.
cudaError_t Outside() {
  for (Stream* stream : host.streams) {
    if (!stream->recording || stream->recorder != std::this_thread::get_id()) continue;
    stream->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

/// The block that `memory` lies in.
std::map<std::byte*, Block>::iterator Around(const void* memory) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(memory));
  auto it = host.blocks.upper_bound(at);
  if (it == host.blocks.begin()) return host.blocks.end();
  --it;
  return at < it->first + it->second.bytes ? it : host.blocks.end();
}

/// Device memory begins as the driver has it: pages of their own from 2 MiB on, anywhere below.
cudaError_t Allocate(void** memory, size_t bytes, const Block& kind) {
  constexpr size_t kPage = 2 << 20;
  if (const cudaError_t outside = Outside(); outside != cudaSuccess) return outside;
  std::byte* block = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes / kPage + 2) * kPage));
  if (bytes < kPage) block += 1536;
  host.blocks[block] = kind;
  host.blocks[block].bytes = bytes;
  *memory = block;
  return cudaSuccess;
}

cudaError_t Free(void* memory, bool on_host, bool pooled, const std::string& function) {
  const auto it = host.blocks.find(static_cast<std::byte*>(memory));
  if (it == host.blocks.end()) {
    Misuse(function + " of no block");
    return cudaErrorInvalidValue;
  }
  if (it->second.on_host != on_host || it->second.pooled != pooled) Misuse(function + " of another kind of memory");
  if (it->second.imported > 0) Misuse(function + " of memory that is open elsewhere");
  NeedCurrent(it->second.device, function);
  std::free(it->first - (it->second.bytes < (2 << 20) ? 1536 : 0));
  host.blocks.erase(it);
  return cudaSuccess;
}

Work Copying(void* to, const void* from, size_t bytes) {
  return [=] { std::memmove(to, from, bytes); };
}

CUresult AddressRange(CUdeviceptr* begin, size_t* bytes, CUdeviceptr memory) {
  const std::lock_guard lock(mutex);
  const auto it = Around(reinterpret_cast<void*>(memory));
  // It answers for the current context's memory, and for what is open there.
  if (it == host.blocks.end() || (it->second.device != current && it->second.imported == 0))
    return CUDA_ERROR_NOT_FOUND;
  *begin = reinterpret_cast<CUdeviceptr>(it->first);
  *bytes = it->second.bytes;
  return CUDA_SUCCESS;
}

CUresult DmaBuf(void* fd, CUdeviceptr memory, size_t bytes, CUmemRangeHandleType, unsigned long long) {  // NOLINT
  const std::lock_guard lock(mutex);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto it = Around(reinterpret_cast<void*>(memory));
  if (it == host.blocks.end() || it->second.pooled || memory % page != 0 || bytes % page != 0 ||
      memory + bytes > reinterpret_cast<CUdeviceptr>(it->first) + it->second.bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(fd) = 1000;
  return CUDA_SUCCESS;
}

CUresult DeviceAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult DeviceOf(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}

cudaError_t EntryPoint(const char* name, void** function, cudaDriverEntryPointQueryResult* result) {
  const std::string wanted = name;
  *function = nullptr;
  if (wanted == "cuMemGetAddressRange") *function = reinterpret_cast<void*>(&AddressRange);
  if (wanted == "cuMemGetHandleForAddressRange") *function = reinterpret_cast<void*>(&DmaBuf);
  if (wanted == "cuDeviceGetAttribute") *function = reinterpret_cast<void*>(&DeviceAttribute);
  if (wanted == "cuDeviceGet") *function = reinterpret_cast<void*>(&DeviceOf);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

/// A graph, or what was made of one to be launched.
cudaError_t Drop(const std::string& function, void* handle) {
  return Call(function, [=] {
    auto* const graph = static_cast<Graph*>(handle);
    if (host.graphs.erase(graph) == 0) Misuse(function + " of a graph that is not there");
    delete graph;
    return cudaSuccess;
  });
}

std::string AddressOf(int device) { return "0000:0" + std::to_string(device + 1) + ":00.0"; }

}  // namespace

void Reset(int gpus) {
  const std::lock_guard lock(mutex);
  host = Host();
  host.gpus = gpus;
  current = 0;
  last_error = cudaSuccess;
}

void Separate() {
  const std::lock_guard lock(mutex);
  host.reach = false;
}

void FailNext(const std::string& function, cudaError_t error) {
  const std::lock_guard lock(mutex);
  host.failures[function] = error;
}

void Spend(double ms) {
  const std::lock_guard lock(mutex);
  host.now_ms += ms;
}

void FailLaunch(cudaError_t error) { last_error = error; }

std::vector<std::string> Misuses() {
  const std::lock_guard lock(mutex);
  return host.misuses;
}

size_t Leaks() {
  const std::lock_guard lock(mutex);
  return host.streams.size() + host.events.size() + host.graphs.size() + host.blocks.size();
}

int Calls(const std::string& function) {
  const std::lock_guard lock(mutex);
  return host.calls[function];
}

Block BlockAt(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto it = host.blocks.find(static_cast<std::byte*>(const_cast<void*>(memory)));
  return it == host.blocks.end() ? Block() : it->second;
}

}  // namespace hp::test::fake_cuda

using namespace hp::test::fake_cuda;  // NOLINT(build/namespaces)

extern "C" {

// --- Errors and devices

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t) { return "as the test wants it"; }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorOfTheTest"; }

cudaError_t cudaGetDeviceCount(int* count) {
  return Call("cudaGetDeviceCount", [=] {
    *count = host.gpus;
    return host.gpus > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return Call("cudaSetDevice", [=] {
    if (device < 0 || device >= host.gpus) return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Call("cudaGetDevice", [=] {
    *device = current;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call("cudaGetDeviceProperties", [=] {
    *properties = {};
    std::strcpy(properties->name, "fake");  // NOLINT(runtime/printf)
    properties->major = 9;
    properties->totalGlobalMem = size_t{1} << 34;
    properties->multiProcessorCount = 100 + device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return Call("cudaDeviceGetPCIBusId", [=] {
    std::strncpy(id, AddressOf(device).c_str(), bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return Call("cudaDeviceGetByPCIBusId", [=] {
    for (int index = 0; index < host.gpus; ++index) {
      if (AddressOf(index) != id) continue;
      *device = index;
      return cudaSuccess;
    }
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call("cudaDeviceSynchronize", [] { return Outside(); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  return Call("cudaDeviceCanAccessPeer", [=] {
    *can = host.reach;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int) {
  return Call("cudaDeviceEnablePeerAccess", [=] {
    if (!host.reach) return cudaErrorPeerAccessUnsupported;
    return host.peers.insert({current, peer}).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

// --- Memory

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Call("cudaMemGetInfo", [=] {
    *total = size_t{1} << 34;
    *free = size_t{1} << 33;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return Call("cudaMalloc", [=] { return Allocate(memory, bytes, {.device = current}); });
}
cudaError_t cudaFree(void* memory) {
  return Call("cudaFree", [=] { return Free(memory, false, false, "cudaFree"); });
}
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  return Call("cudaMallocAsync", [=] {
    if (StreamOf(stream, "cudaMallocAsync") == nullptr) return cudaErrorInvalidResourceHandle;
    return Allocate(memory, bytes, {.device = current, .pooled = true});
  });
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return Call("cudaFreeAsync", [=] {
    if (StreamOf(stream, "cudaFreeAsync") == nullptr) return cudaErrorInvalidResourceHandle;
    return Free(memory, false, true, "cudaFreeAsync");
  });
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int) {
  return Call("cudaHostAlloc", [=] { return Allocate(memory, bytes, {.device = current, .on_host = true}); });
}
cudaError_t cudaFreeHost(void* memory) {
  return Call("cudaFreeHost", [=] { return Free(memory, true, false, "cudaFreeHost"); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return Call("cudaMemcpyAsync", [=] { return Put(stream, "cudaMemcpyAsync", Copying(to, from, bytes)); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Call("cudaMemsetAsync",
              [=] { return Put(stream, "cudaMemsetAsync", [=] { std::memset(to, value, bytes); }); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  return Call("cudaPointerGetAttributes", [=] {
    *attributes = {};
    const auto it = Around(memory);
    const bool known = it != host.blocks.end();
    attributes->type = !known               ? cudaMemoryTypeUnregistered
                       : it->second.on_host ? cudaMemoryTypeHost
                                            : cudaMemoryTypeDevice;
    attributes->device = known ? it->second.device : -2;
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return Call("cudaIpcGetMemHandle", [=] {
    const auto it = host.blocks.find(static_cast<std::byte*>(memory));
    if (it == host.blocks.end() || it->second.pooled || it->second.on_host) return cudaErrorInvalidValue;
    std::memcpy(handle, &memory, sizeof(memory));
    return cudaSuccess;
  });
}
cudaError_t cudaIpcOpenMemHandle(void** opened, cudaIpcMemHandle_t handle, unsigned int) {
  return Call("cudaIpcOpenMemHandle", [=] {
    void* memory = nullptr;
    std::memcpy(&memory, &handle, sizeof(memory));
    const auto it = host.blocks.find(static_cast<std::byte*>(memory));
    if (it == host.blocks.end()) return cudaErrorInvalidResourceHandle;
    ++it->second.imported;
    *opened = memory;
    return cudaSuccess;
  });
}
cudaError_t cudaIpcCloseMemHandle(void* opened) {
  return Call("cudaIpcCloseMemHandle", [=] {
    const auto it = host.blocks.find(static_cast<std::byte*>(opened));
    if (it == host.blocks.end() || it->second.imported == 0) {
      Misuse("cudaIpcCloseMemHandle of what is not open");
      return cudaErrorInvalidValue;
    }
    --it->second.imported;
    return cudaSuccess;
  });
}

// --- Streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned int flags) {
  return Call("cudaStreamCreateWithFlags", [=] {
    if (flags != cudaStreamNonBlocking) Misuse("a stream that waits for the legacy one");
    auto* const stream = new Stream{.device = current, .recorder = {}, .recorded = {}};
    host.streams.insert(stream);
    *made = reinterpret_cast<cudaStream_t>(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return Call("cudaStreamDestroy", [=] {
    Stream* const stream = StreamOf(handle, "cudaStreamDestroy");
    host.streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return Call("cudaStreamSynchronize", [=] {
    (void)StreamOf(handle, "cudaStreamSynchronize");
    return Outside();
  });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned int flags) {
  return Call("cudaEventCreateWithFlags", [=] {
    auto* const event = new Event{.device = current, .timed = (flags & cudaEventDisableTiming) == 0};
    host.events.insert(event);
    *made = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return Call("cudaEventDestroy", [=] {
    Event* const event = EventOf(handle, "cudaEventDestroy");
    host.events.erase(event);
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return Call("cudaEventRecord", [=] {
    Event* const event = EventOf(handle, "cudaEventRecord");
    if (event == nullptr || StreamOf(stream, "cudaEventRecord") == nullptr) return cudaErrorInvalidResourceHandle;
    event->recorded = true;
    event->at_ms = host.now_ms;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned int) {
  return Call("cudaStreamWaitEvent", [=] {
    const Event* const event = EventOf(handle, "cudaStreamWaitEvent");
    (void)StreamOf(stream, "cudaStreamWaitEvent");
    if (event != nullptr && !event->recorded) Misuse("a wait for an event that nobody recorded");
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return Call("cudaEventSynchronize", [=] {
    const Event* const event = EventOf(handle, "cudaEventSynchronize");
    if (event != nullptr && !event->recorded) Misuse("a wait for an event that nobody recorded");
    return Outside();
  });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return Call("cudaEventElapsedTime", [=] {
    const Event* const from = EventOf(begin, "cudaEventElapsedTime");
    const Event* const to = EventOf(end, "cudaEventElapsedTime");
    if (from == nullptr || to == nullptr || !from->timed || !to->timed) return cudaErrorInvalidResourceHandle;
    *ms = static_cast<float>(to->at_ms - from->at_ms);
    return cudaSuccess;
  });
}

// --- Recordings

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return Call("cudaStreamBeginCapture", [=] {
    Stream* const stream = StreamOf(handle, "cudaStreamBeginCapture");
    if (stream->recording) return cudaErrorIllegalState;
    if (mode != cudaStreamCaptureModeThreadLocal) Misuse("a recording that other threads spoil");
    *stream = {.device = stream->device, .recording = true, .recorder = std::this_thread::get_id(), .recorded = {}};
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  return Call("cudaStreamEndCapture", [=] {
    Stream* const stream = StreamOf(handle, "cudaStreamEndCapture");
    *made = nullptr;
    if (!stream->recording) return cudaErrorIllegalState;
    stream->recording = false;
    if (stream->spoilt) return cudaErrorStreamCaptureInvalidated;
    auto* const graph = new Graph{std::move(stream->recorded)};
    host.graphs.insert(graph);
    *made = reinterpret_cast<cudaGraph_t>(graph);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {  // NOLINT
  return Call("cudaGraphInstantiate", [=] {
    auto* const executable = new Graph(*reinterpret_cast<Graph*>(graph));
    host.graphs.insert(executable);
    *made = reinterpret_cast<cudaGraphExec_t>(executable);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return Call("cudaGraphUpload", [] { return cudaSuccess; });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return Drop("cudaGraphDestroy", graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return Drop("cudaGraphExecDestroy", graph); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  return Call("cudaGraphLaunch", [=] {
    auto* const graph = reinterpret_cast<Graph*>(handle);
    if (!host.graphs.contains(graph)) Misuse("the launch of a graph that is not there");
    for (const Work& work : graph->work) {
      if (const cudaError_t error = Put(stream, "cudaGraphLaunch", work); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

// --- The driver

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int,
                                             unsigned long long,  // NOLINT
                                             cudaDriverEntryPointQueryResult* result) {
  return EntryPoint(name, function, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,  // NOLINT
                                    cudaDriverEntryPointQueryResult* result) {
  return EntryPoint(name, function, result);
}
#endif

}  // extern "C"

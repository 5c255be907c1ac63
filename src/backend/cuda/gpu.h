#pragma once

#include "hp/status.h"
#include "tensor/device.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// Stands in for a CUDA stream in tests without a GPU: runs on the host, in order and some time later, what a kernel or
/// a library would do.
class HostStream {
 public:
  virtual ~HostStream() = default;
  /// Appends `work`; never blocks. `work` owns copies of its arguments: it may run long after the call.
  virtual void Enqueue(std::function<void()> work) = 0;
};

/// The stream that kernels and library calls go to: exactly one of the two is set. The Gpu owns it.
struct GpuStream {
  void* cuda = nullptr;        ///< a cudaStream_t
  HostStream* host = nullptr;  ///< in tests
};

/// Properties of a GPU, read when it was listed or opened.
struct GpuInfo {
  int index = 0;                            ///< CUDA's device number N of "cuda:N"
  std::string name;                         ///< "NVIDIA H200"
  int major = 0, minor = 0;                 ///< compute capability
  size_t memory_bytes = 0, free_bytes = 0;  ///< free_bytes: when it was read, of all processes
  int multiprocessors = 0;
  std::string pci_address;  ///< "0000:3b:00.0", lower case
  bool dma_buf = false;     ///< its memory can be exported to a network adapter (ExportDmaBuf)
  std::string fault;        ///< why it can't be used now; then only `index` is set besides. Empty: none
};

/// Names memory of a GPU for other processes of the same host. May be sent to them.
struct GpuIpcMemory {
  std::string handle;   ///< the bytes of a cudaIpcMemHandle_t, of the allocation that contains the memory
  uint64_t offset = 0;  ///< bytes from the start of the allocation to the memory
};

/// One GPU: a Device whose queues are CUDA streams, and what only GPUs have. It is the one seam to CUDA's runtime and
/// driver. OpenGpu makes the real one; tests use a FakeGpu, which runs the same kernels on the host, late and in any
/// order that streams and marks allow. Device says which calls block and who may call.
class Gpu : public Device {
 public:
  bool is_host() const override { return false; }
  /// As read when it was opened.
  virtual const GpuInfo& info() const = 0;
  /// The stream of `queue`, to put kernels and library calls into; lives as long as the Gpu.
  virtual GpuStream stream(Queue queue) = 0;

  /// Exports `bytes` bytes of memory of AllocateShared as a dma-buf, with which a network adapter can access it.
  /// @param memory the start of the allocation. @param pcie_mapping map by PCIe addresses rather than the GPU's own
  /// fabric; some adapters need it.
  /// @param fd a file descriptor that the caller closes. @param offset of `memory` within the dma-buf, in bytes.
  /// @return kFailedPrecondition: the driver can't.
  virtual Status ExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd, uint64_t* offset) = 0;
  /// Copies between host and device memory, either way; blocks until it is done. Not ordered with any queue: the caller
  /// knows that no pending work uses the memory. Any thread. @return kInternal: the device failed.
  virtual Status CopyNow(void* to, const void* from, size_t bytes) = 0;

  // Copies into memory of another node: of another GPU of this host, or of this GPU. Memory of another process is
  // opened with ExportIpc there and OpenIpc here, memory of this process with OpenHere; then CopyAcross writes to it.
  // Any thread, except CopyAcross, which feeds a queue.

  /// Whether this GPU can access the memory of the GPU at `pci_address`. Ok also where this process cannot see that
  /// one: then only opening its memory shows it. @return kFailedPrecondition: no peer access.
  virtual Status CanReach(const std::string& pci_address) = 0;
  /// Names memory for OpenIpc in another process. @param memory anywhere in a Buffer of AllocateShared, which must stay
  /// allocated until the other process has closed it. @return kFailedPrecondition: the driver can't.
  virtual StatusOr<GpuIpcMemory> ExportIpc(const void* memory) = 0;
  /// Maps memory of another process into this one. @param memory comes from the other process and is not trusted.
  /// @return an address for CopyAcross, until CloseIpc. kInvalidArgument: not a handle, or fewer than `bytes` bytes
  /// behind the offset; kFailedPrecondition: the driver can't open it.
  virtual StatusOr<void*> OpenIpc(const GpuIpcMemory& memory, size_t bytes) = 0;
  /// Unmaps it; once for each OpenIpc (CHECK). @param opened what OpenIpc returned; no copy into it may be pending.
  virtual void CloseIpc(void* opened) = 0;
  /// Makes memory of a GPU of this process a valid target of CopyAcross, for as long as it is allocated; nothing closes
  /// it. @param memory anywhere in a Buffer of that GPU's AllocateShared.
  /// @return kInvalidArgument: no `bytes` bytes of GPU memory at `memory`; kFailedPrecondition: no peer access.
  virtual Status OpenHere(void* memory, size_t bytes) = 0;
  /// Puts a copy of `bytes` bytes from memory of this GPU into `queue`. @param to in memory of OpenIpc or OpenHere.
  virtual void CopyAcross(Queue queue, void* to, const void* from, size_t bytes) = 0;

  /// Reports that a library could not put its work into a queue: Wait and Synchronize return the first such status from
  /// then on. Exception: while this thread records captured work (RunCaptured), only the recording fails, and the work
  /// is run directly instead. Any thread.
  virtual void Fail(const Status& status) = 0;
};

/// The GPUs that CUDA shows this process, in the order of their indices, also those that cannot be used now
/// (GpuInfo::fault). @return kFailedPrecondition: no driver, or one too old; the message says which.
StatusOr<std::vector<GpuInfo>> ListGpus();

/// How many there are, without a context on each. @return kFailedPrecondition: as ListGpus.
StatusOr<int> NumberOfGpus();

/// Opens "cuda:INDEX" and creates its streams. @return kNotFound: no such GPU; kFailedPrecondition: as ListGpus;
/// kInternal: CUDA failed.
StatusOr<std::unique_ptr<Gpu>> OpenGpu(int index);

}  // namespace hp

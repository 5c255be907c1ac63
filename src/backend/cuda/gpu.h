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

/// Stands in for a stream where there is no GPU: does on the host, in order and at some later time, what a kernel or a
/// library would do.
class HostStream {
 public:
  virtual ~HostStream() = default;
  virtual void Enqueue(std::function<void()> work) = 0;
};

/// Where kernels and library calls go: one of the two.
struct GpuStream {
  void* cuda = nullptr;  ///< a cudaStream_t
  HostStream* host = nullptr;
};

/// What there is to know of a GPU before a node takes it.
struct GpuInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  size_t memory_bytes = 0, free_bytes = 0;
  int multiprocessors = 0;
  std::string pci_address;  ///< "0000:3b:00.0"
  bool dma_buf = false;     ///< its memory can be exported for an adapter
  std::string fault;        ///< why it can't be used now; the rest but the index is missing then
};

/// Memory of a GPU as another process of the host opens it.
struct GpuIpcMemory {
  std::string handle;   ///< of the driver, of the allocation that the memory lies in
  uint64_t offset = 0;  ///< of the memory in it
};

/// One GPU: a Device whose queues are streams. The real one is OpenGpu; tests have a FakeGpu, which runs the same
/// kernels on the host, late and in any order that streams and marks allow.
class Gpu : public Device {
 public:
  bool is_host() const override { return false; }
  virtual const GpuInfo& info() const = 0;
  virtual GpuStream stream(Queue queue) = 0;

  /// A descriptor of `bytes` bytes of memory of Allocate for a network adapter; the receiver closes `*fd`.
  /// @param pcie_mapping by PCIe's addresses rather than the GPU's own fabric.
  /// @return kFailedPrecondition: the driver can't.
  virtual Status ExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd, uint64_t* offset) = 0;
  /// A copy between host and device, either way, done when it returns. Any thread.
  virtual Status CopyNow(void* to, const void* from, size_t bytes) = 0;

  // Memory of another GPU of this host, or of this one as another node has it, to copy into.

  /// Whether this GPU can reach the memory of the one at `pci_address`. Ok also where this process does not see that
  /// one: opening its memory will tell. @return kFailedPrecondition: the driver says no.
  virtual Status CanReach(const std::string& pci_address) = 0;
  /// For OpenIpc of another process. @param memory of AllocateShared. @return kFailedPrecondition: the driver can't.
  virtual StatusOr<GpuIpcMemory> ExportIpc(const void* memory) = 0;
  /// @param memory from another process, so it may be anything. @return kInvalidArgument: there are not `bytes` bytes
  /// of it; kFailedPrecondition: the driver can't open it.
  virtual StatusOr<void*> OpenIpc(const GpuIpcMemory& memory, size_t bytes) = 0;
  /// @param opened what OpenIpc gave; no copy into it is under way.
  virtual void CloseIpc(void* opened) = 0;
  /// Makes memory of a GPU of this process, which AllocateShared of that one gave, a place to copy into: for good.
  /// @return kInvalidArgument: there are no `bytes` bytes of a GPU at `memory`; kFailedPrecondition: as CanReach.
  virtual Status OpenHere(void* memory, size_t bytes) = 0;
  /// A copy from memory of this GPU into memory of OpenIpc or OpenHere.
  virtual void CopyAcross(Queue queue, void* to, const void* from, size_t bytes) = 0;

  /// A library could not put its work into a queue: Wait and Synchronize say `status` from now on, unless this thread
  /// is recording; then the work is done again directly. Any thread.
  virtual void Fail(const Status& status) = 0;
};

/// The GPUs of this host, also those that another process has for itself. @return kFailedPrecondition: no driver, or
/// one too old; says which.
StatusOr<std::vector<GpuInfo>> ListGpus();

/// @return kNotFound: no such GPU; kFailedPrecondition: as ListGpus.
StatusOr<std::unique_ptr<Gpu>> OpenGpu(int index);

}  // namespace hp

#pragma once

#include "hp/status.h"
#include "tensor/buffer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// What a node computes on: its memory, and queues of work (CUDA streams on a GPU). Work of one queue is done in the
/// order of the calls; different queues run concurrently unless Order says otherwise. The host's device
/// (MakeHostDevice) has done everything when a call returns. backend/cuda/gpu.h adds what only GPUs have.
///
/// Calls that put work into a queue never block and report nothing: a failure of the device shows up in the next Wait
/// or Synchronize, and in all later ones. Allocations, Wait and Synchronize block. Any thread may call, but each queue
/// is fed by one thread at a time.
///
/// A tensor that is copied in, used and copied out:
///   device->Upload(Device::kCopyIn, input, host_in, bytes);
///   device->Order(Device::kCopyIn, Device::kCompute);
///   op->Forward(args);                                        // puts its kernels into kCompute
///   device->Order(Device::kCompute, Device::kCopyOut);
///   device->Download(Device::kCopyOut, host_out, output, bytes);
///   const Device::Mark done = device->Record(Device::kCopyOut);
///   HP_RETURN_IF_ERROR(device->Wait(done));                   // host_out is complete
class Device {
 public:
  enum Queue {
    kCompute,    ///< ops and updates
    kCopyIn,     ///< copies from the host
    kCopyOut,    ///< copies to the host
    kExchange,   ///< sums of gradients over replicas
    kCopyAcross  ///< copies to other devices
  };
  static constexpr int kQueues = 5;

  /// A point in a queue's work, from Record. Valid for one Wait or Follow.
  using Mark = uint64_t;

  /// Names a captured piece of work: equal keys mean the same calls with the same addresses and sizes. Where
  /// several users of one device capture work, their keys contain an address that tells them apart.
  using CaptureKey = std::array<uint64_t, 6>;

  virtual ~Device() = default;

  /// "cpu", "cuda:0": as in the routing table and in messages.
  virtual std::string name() const = 0;
  /// Whether its memory is host memory: host code may dereference it, and no work is ever pending.
  virtual bool is_host() const = 0;

  /// Bytes that a node may still allocate, a reserve for the driver deducted; 0 for the host, whose free memory is not
  /// counted here.
  virtual size_t free_bytes() const = 0;
  /// Zeroed memory of the device, aligned to 256 bytes on a GPU, else to a page. Waits for kCompute on a GPU. It must
  /// not outlive the device, nor be released while work that uses it is pending. 0 bytes: an empty Buffer.
  /// @return kResourceExhausted: out of memory; kInternal: the device failed.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  /// The same in memory that can be exported to a network adapter (Gpu::ExportDmaBuf), another device or another
  /// process; costs up to 2 MiB of rounding, so not for many small buffers.
  virtual StatusOr<Buffer> AllocateShared(size_t bytes) { return Allocate(bytes); }
  /// Zeroed host memory that the device copies from and to without a detour (pinned). Errors as Allocate's.
  virtual StatusOr<Buffer> AllocateHost(size_t bytes) = 0;

  /// Copies `bytes` bytes from host memory to the device. The source must stay unmodified until the copy is done.
  /// Memory of AllocateHost; with any other the call may block for the copy.
  virtual void Upload(Queue queue, void* to, const void* from, size_t bytes) = 0;
  /// Copies from the device to host memory (likewise of AllocateHost), whose contents are undefined until the copy is
  /// done.
  virtual void Download(Queue queue, void* to, const void* from, size_t bytes) = 0;

  /// Copies within the device; the two ranges do not overlap.
  virtual void Copy(Queue queue, void* to, const void* from, size_t bytes) = 0;

  /// Work put into `then` after this call starts only when all work put into `first` before it is done. The host does
  /// not wait.
  virtual void Order(Queue first, Queue then) = 0;
  /// Marks the end of what `queue` holds so far. Each mark holds a resource of the device until Wait or Follow.
  virtual Mark Record(Queue queue) = 0;
  /// Work put into `then` after this call starts only when all work in front of the mark is done. The host does not
  /// wait. Instead of Wait, once for each mark; any thread.
  virtual void Follow(Mark mark, Queue then) = 0;
  /// Blocks until all work that was in the queue before the mark is done. Once for each mark (CHECK on a GPU); any
  /// thread. @return kInternal: the device failed, now or earlier.
  virtual Status Wait(Mark mark) = 0;
  /// Blocks until all queues are empty. Errors as Wait's.
  virtual Status Synchronize() = 0;

  /// Runs `work`, which puts work into kCompute only. A GPU calls it directly the first time that it sees `key`,
  /// records it as a CUDA graph the second time, and from then on launches the graph without calling `work`; one launch
  /// costs less than many kernels. So `work` must have no other effect, must do the same for the same key, and may
  /// allocate and initialise in its first run only; numbers that differ from run to run belong in device memory at
  /// fixed addresses. What cannot be recorded is run directly each time. kCompute's thread only.
  virtual void RunCaptured(const CaptureKey& key, const std::function<void()>& work) = 0;

  /// Names what the calling thread puts into the queues between the two calls, for a profiler (NVTX). They nest.
  virtual void BeginRange(const std::string& /*name*/) {}
  virtual void EndRange() {}
};

/// The host's processors and memory, name "cpu". Any thread.
/// @param allocate_shared for AllocateShared, of at least 1 byte; null: as Allocate.
std::unique_ptr<Device> MakeHostDevice(std::function<StatusOr<Buffer>(size_t bytes)> allocate_shared = nullptr);

}  // namespace hp

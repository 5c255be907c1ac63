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

/// What a node computes on: its memory, and the order of its work. What is put into one queue is done in the order of
/// the calls; queues run beside each other. The host's device has done everything when a call returns.
///
/// Calls never block, except Wait and Synchronize. A failure of the device shows up there. Any thread, but each queue
/// is fed by one thread at a time.
class Device {
 public:
  /// Ops and updates; copies from the host, copies to the host, the gradient exchange, and copies to other devices,
  /// which overlap with them.
  enum Queue { kCompute, kCopyIn, kCopyOut, kExchange, kCopyAcross };
  static constexpr int kQueues = 5;

  /// A point in a queue's work; good for one Wait.
  using Mark = uint64_t;

  /// What makes a piece of work the same as an earlier one: the same calls on the same addresses.
  using RepeatKey = std::array<uint64_t, 6>;

  virtual ~Device() = default;

  /// "cpu", "cuda:0".
  virtual std::string name() const = 0;
  /// Whether its memory is the host's, so that anybody may read it and nothing is ever pending.
  virtual bool is_host() const = 0;

  /// Memory that is free now; 0: the host's, which is not ours alone to count.
  virtual size_t free_bytes() const = 0;
  /// Zeroed memory of the device; must not outlive it. @return kResourceExhausted: so much is not free.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  /// The same, of the kind that can be given to others: a network adapter, another device.
  virtual StatusOr<Buffer> AllocateShared(size_t bytes) { return Allocate(bytes); }
  /// Zeroed memory of the host that copies to and from the device go to directly. Errors as above.
  virtual StatusOr<Buffer> AllocateHost(size_t bytes) = 0;

  /// From host memory (of AllocateHost, or the copy may wait for itself) to the device. The source must stay as it is
  /// until the copy is done.
  virtual void Upload(Queue queue, void* to, const void* from, size_t bytes) = 0;
  /// From the device to host memory, which is undefined until the copy is done.
  virtual void Download(Queue queue, void* to, const void* from, size_t bytes) = 0;

  /// Within the device.
  virtual void Copy(Queue queue, void* to, const void* from, size_t bytes) = 0;

  /// What is put into `then` from now on waits for what was put into `first` until now.
  virtual void Order(Queue first, Queue then) = 0;
  virtual Mark Record(Queue queue) = 0;
  /// Blocks until all that was in the queue before the mark is done. @return kInternal: the device failed.
  virtual Status Wait(Mark mark) = 0;
  /// Blocks until all queues are empty. Errors as above.
  virtual Status Synchronize() = 0;

  /// Calls `work`, which feeds kCompute alone, or does again what it did under the same key: `work` is then not called
  /// and must not be needed for anything else. Numbers that differ from time to time belong into device memory. The
  /// first time is never the one that is done again, so that `work` may make then what it needs once.
  virtual void Repeat(const RepeatKey& key, const std::function<void()>& work) = 0;

  /// Names what is put into the queues between the two, for a profiler. They nest.
  virtual void BeginRange(const std::string& /*name*/) {}
  virtual void EndRange() {}
};

/// The host's processors and memory.
std::unique_ptr<Device> MakeHostDevice();

}  // namespace hp

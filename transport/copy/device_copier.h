#pragma once

#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hp {

constexpr size_t kCopyProbeBytes = 256;  ///< of the memory by which a pair tries whether it can copy

/// The part of a node's GPU that copies into memory of other GPUs of its host, without any type of CUDA's. One thread
/// at a time (CopyQueue's), except where it says otherwise. src/devices/gpu_copier.h implements it.
class DeviceCopier {
 public:
  using Mark = uint64_t;  ///< a point in the GPU's queue, from Record

  virtual ~DeviceCopier() = default;
  /// For messages: "cuda:0".
  virtual std::string name() const = 0;
  /// kCopyProbeBytes of the GPU's memory that peers may copy into to try whether they can; its contents do not matter.
  /// Any thread.
  virtual const DeviceMemory& probe() const = 0;

  /// Opens memory that a peer exported (DeviceMemory::export_handle), to copy into. May take milliseconds.
  /// @param handle from the peer, not trusted. @param bytes that will be used of the memory, from its start.
  /// @return its address for Copy. kInvalidArgument: not a handle of that many bytes; kFailedPrecondition: it cannot be
  /// reached from this GPU; says why.
  virtual StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) = 0;
  /// Closes what Open returned; once. No copy into it may be pending.
  virtual void Close(std::byte* opened) = 0;

  /// Puts a copy of `bytes` bytes into the GPU's queue; copies are done in the order of the calls. Never blocks; a
  /// failure shows up in Wait. @param to in opened memory. @param from in memory of this GPU, complete already,
  /// unmodified until the copy is done.
  virtual void Copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  /// Marks the end of all copies put into the queue so far; for one Wait.
  virtual Mark Record() = 0;
  /// Blocks until all copies before the mark are done. @return kInternal: the GPU failed.
  virtual Status Wait(Mark mark) = 0;
};

}  // namespace hp

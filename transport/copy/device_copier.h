#pragma once

#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hp {

constexpr size_t kCopyProbeBytes = 256;

/// The GPU of a node, as far as copies into the memory of other GPUs of its host go. One thread at a time.
class DeviceCopier {
 public:
  using Mark = uint64_t;

  virtual ~DeviceCopier() = default;
  /// For messages: "cuda:0".
  virtual std::string name() const = 0;
  /// kCopyProbeBytes of the GPU's memory that peers may try to copy into; what they hold is nobody's. Any thread.
  virtual const DeviceMemory& probe() const = 0;

  /// Opens memory that a peer exported (DeviceMemory::export_handle), to copy into.
  /// @param handle from the peer, so it may be anything. @param bytes that will be used of it, from its begin on.
  /// @return kInvalidArgument: no handle of so many bytes; kFailedPrecondition: not to be reached from here; says why.
  virtual StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) = 0;
  /// No copy into it may be under way.
  virtual void Close(std::byte* opened) = 0;

  /// Puts a copy into the GPU's queue; copies are done in order. @param to in opened memory. @param from in the memory
  /// of the GPU, final already.
  virtual void Copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  /// All copies until now; good for one Wait.
  virtual Mark Record() = 0;
  /// Blocks until they are done. @return kInternal: the GPU failed.
  virtual Status Wait(Mark mark) = 0;
};

}  // namespace hp

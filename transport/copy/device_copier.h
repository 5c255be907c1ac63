#pragma once

#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hp {

constexpr size_t kCopyProbeBytes = 256;  ///< of the memory by which a pair tries whether it can copy

/// The part of a node's device that copies into memory of other such devices of its host, without any type of CUDA's.
/// One thread at a time (that of a job of CopyQueue), except where it says otherwise. src/devices/gpu_copier.h
/// implements it for a GPU, src/devices/host_copier.h for the processors.
class DeviceCopier {
 public:
  using Mark = uint64_t;  ///< a point in the device's queue, from Record

  virtual ~DeviceCopier() = default;
  /// For messages: "cuda:0", "cpu".
  virtual std::string name() const = 0;
  /// Whether it copies between memory of the host: from any, into what FindShared finds on the other side. Else all of
  /// it is memory of Transport::RegisterDevice. Any thread.
  virtual bool is_host() const { return false; }
  /// The whole allocation of the host's memory that `part` lies in. Any thread. @return nullopt: no peer can open it.
  virtual std::optional<DeviceMemory> FindShared(std::span<const std::byte> /*part*/) const { return std::nullopt; }
  /// kCopyProbeBytes of the device's memory that peers may copy into to try whether they can; its contents do not
  /// matter. Any thread.
  virtual const DeviceMemory& probe() const = 0;

  /// Opens memory that a peer exported (DeviceMemory::export_handle), to copy into. May take milliseconds.
  /// @param handle from the peer, not trusted. @param bytes that will be used of the memory, from its start.
  /// @return its address for Copy. kInvalidArgument: not a handle of that many bytes; kFailedPrecondition: it cannot be
  /// reached from this device; says why.
  virtual StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) = 0;
  /// Closes what Open returned; once. No copy into it may be pending.
  virtual void Close(std::byte* opened) = 0;

  /// Puts a copy of `bytes` bytes into the device's queue; copies are done in the order of the calls. Never waits for
  /// work of others; a failure shows up in Wait. @param to in opened memory. @param from in memory of this device,
  /// complete already, unmodified until the copy is done.
  virtual void Copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  /// Marks the end of all copies put into the queue so far; for one Wait.
  virtual Mark Record() = 0;
  /// Blocks until all copies before the mark are done. @return kInternal: the device failed.
  virtual Status Wait(Mark mark) = 0;
};

}  // namespace hp

#pragma once

#include "base/mutex.h"
#include "base/sealed_memory.h"
#include "hp/status.h"
#include "tensor/buffer.h"
#include "transport/copy/device_copier.h"
#include "transport/transport.h"

#include "devices/process_place.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hp {

/// A node on the host's processors as it copies into the memory of other such nodes of its host. Each maps what the
/// other allocated here (SealedMemory); nodes of one process do the same. Contract of the methods, and threads:
/// DeviceCopier.
class HostCopier : public DeviceCopier {
 public:
  /// Without memory for the probe it exports none, and says why. @param place of the node.
  explicit HostCopier(const ProcessPlace& place);

  /// Zeroed memory that peers may map, for Device::AllocateShared; where the system refuses that (logged), other
  /// memory. May outlive the copier. Any thread. @return kResourceExhausted: out of memory.
  StatusOr<Buffer> Allocate(size_t bytes);

  std::string name() const override { return "cpu"; }
  const DeviceMemory& probe() const override { return probe_; }
  bool is_host() const override { return true; }
  std::optional<DeviceMemory> FindShared(std::span<const std::byte> part) const override;
  /// @param handle not trusted. @return kInvalidArgument: no handle, or it stands for less memory or for something
  /// else; kFailedPrecondition: another host or container, or the memory can't be opened; says why.
  StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) override;
  void Close(std::byte* opened) override { opened_.erase(opened); }
  /// Done when it returns.
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override;
  Mark Record() override { return 0; }
  Status Wait(Mark) override { return OkStatus(); }

 private:
  class Allocations;

  const ProcessPlace place_;
  const std::shared_ptr<Allocations> allocations_;
  Buffer probe_buffer_;
  DeviceMemory probe_;
  std::map<std::byte*, SealedMemory> opened_;  // of peers, by their first byte
};

}  // namespace hp

#pragma once

#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace hp {

/// A transport for whoever uses only a part of the interface, such as a pipeline, which grants and writes: what is not
/// overridden does nothing, or returns kInternal.
class PartialTransport : public Transport {
 public:
  Status Start(TransportHandler*, HandshakePolicy*) override { return Unused(); }
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte>) override { return Unused(); }
  Status Grant(Rank, const PlaceTag&, std::span<std::byte>) override { return Unused(); }
  Status Write(Rank, const PlaceTag&, RemoteGrant, std::span<const std::byte>) override { return Unused(); }
  Status CancelGrant(Rank, RemoteGrant) override { return Unused(); }
  Status Send(Rank, uint32_t, std::span<const std::byte>) override { return Unused(); }
  int64_t LastHeardNs(Rank) const override { return 0; }
  int64_t LastSentNs(Rank) const override { return 0; }
  void Shutdown(Rank) override {}
  void Break(Rank, const Status&) override {}
  void Defer(std::function<void()>) override {}
  void Stop() override {}

 private:
  static Status Unused() { return InternalError("not a part of this transport"); }
};

}  // namespace hp

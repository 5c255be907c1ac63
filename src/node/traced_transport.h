#pragma once

#include "report/node_trace.h"
#include "transport/transport.h"

#include <functional>
#include <memory>
#include <utility>

namespace hp {

/// A transport whose writes are traced: it passes everything on. The ends come to the node, as all events do.
class TracedTransport : public Transport {
 public:
  /// Both must outlive it.
  TracedTransport(Transport* transport, NodeTrace* trace) : transport_(transport), trace_(trace) {}

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override {
    return transport_->Start(handler, policy);
  }
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override {
    return transport_->Register(memory);
  }
  StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) override {
    return transport_->RegisterDevice(memory);
  }
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override {
    return transport_->Grant(peer, tag, place);
  }
  /// Traced first: it may end before the call returns.
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    trace_->OnWrite(peer, tag);
    return transport_->Write(peer, tag, grant, source);
  }
  Status CancelGrant(Rank peer, RemoteGrant grant) override { return transport_->CancelGrant(peer, grant); }
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override {
    return transport_->Send(peer, type, bytes);
  }
  void Flush(Rank peer) override { transport_->Flush(peer); }
  int64_t LastHeardNs(Rank peer) const override { return transport_->LastHeardNs(peer); }
  int64_t LastSentNs(Rank peer) const override { return transport_->LastSentNs(peer); }
  void Shutdown(Rank peer) override { transport_->Shutdown(peer); }
  void Break(Rank peer, const Status& cause) override { transport_->Break(peer, cause); }
  void Defer(std::function<void()> event) override { transport_->Defer(std::move(event)); }
  void Stop() override { transport_->Stop(); }

 private:
  Transport* const transport_;
  NodeTrace* const trace_;
};

}  // namespace hp

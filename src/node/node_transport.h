#pragma once

#include "base/format.h"
#include "report/node_trace.h"
#include "transport/transport.h"

#include <functional>
#include <memory>
#include <utility>

namespace hp {

/// The transport as the parts of a node see it. It passes everything on, traces writes, and ends the job where a place
/// or a tensor can't be posted though the peer is there (no memory may be locked any more, say): whoever posted need
/// not look, since all that waits for the tensor ends with the job. Ends of posts come to the node, as all events do.
class NodeTransport : public Transport {
 public:
  /// Both must outlive it. @param on_failure is called on the progress thread, maybe more than once, with why a grant
  /// or a write to a node was not accepted, unless that is kUnavailable: then the peer is lost, or the job is over.
  NodeTransport(Transport* transport, NodeTrace* trace, std::function<void(const Status&)> on_failure)
      : transport_(transport), trace_(trace), on_failure_(std::move(on_failure)) {}

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
    return Report(peer, "grant to", transport_->Grant(peer, tag, place));
  }
  /// Traced first: it may end before the call returns.
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    trace_->OnWrite(peer, tag);
    return Report(peer, "write to", transport_->Write(peer, tag, grant, source));
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
  /// Behind what the calling thread holds locked.
  Status Report(Rank peer, const char* post, const Status& status) {
    if (status.ok() || status.code() == StatusCode::kUnavailable || peer >= kFirstClientRank) return status;
    transport_->Defer([this, failure = status.Prepend(Format("%s node %d", post, peer))] { on_failure_(failure); });
    return status;
  }

  Transport* const transport_;
  NodeTrace* const trace_;
  const std::function<void(const Status&)> on_failure_;
};

}  // namespace hp

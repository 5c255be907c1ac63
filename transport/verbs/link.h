#pragma once

#include "base/clock.h"
#include "hp/status.h"
#include "transport/connect/byte_stream.h"
#include "transport/connect/progress.h"
#include "transport/linked_transport.h"
#include "transport/transport.h"
#include "transport/verbs/frames.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hp {

/// A link over queue pairs, as the transport sees it while it is set up: OwnSetup, Connect, Open, in this order.
/// Progress thread.
class VerbsLink : public PeerLink {
 public:
  /// The SETUP to send: what the peer needs to connect its queue pairs to ours. @return kFailedPrecondition: the port
  /// has no usable address, or librdmacm does not work.
  virtual StatusOr<VerbsSetup> OwnSetup() = 0;
  /// Connects our queue pairs to the peer's. `done` is called once, from within or later, or never if the link is
  /// abandoned first. @param theirs the peer's SETUP, without a fault.
  virtual void Connect(const VerbsSetup& theirs, std::function<void(const Status&)> done) = 0;
  /// Both sides are connected: accepts posts and reports OnConnected. After the link was added to the transport's.
  /// @param lifeline the TCP connection over which the nodes met (lifeline.h).
  virtual void Open(std::unique_ptr<ByteStream> lifeline) = 0;
};

/// What the parts of a verbs transport use of it; all pointers outlive them.
struct VerbsContext {
  ProgressThread* progress = nullptr;
  TransportHandler* handler = nullptr;
  const Clock* clock = nullptr;  ///< of LastHeardNs
  Rank rank = 0;                 ///< ours
  int setup_deadline_ms = 0;     ///< for both sides to connect their queue pairs
};

/// The RDMA device of a transport, without any type of libibverbs, so that the transport compiles without it too
/// (no_verbs.cc). OpenVerbsHost makes one.
class VerbsHost {
 public:
  virtual ~VerbsHost() = default;
  /// Device, port and address, for the log.
  virtual std::string Describe() const = 0;
  // As Transport's of these names; any thread.
  virtual StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) = 0;
  virtual StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) = 0;
  /// Has the progress thread wait for the device's events; before that thread runs. Once.
  virtual void Start(const VerbsContext& context) = 0;
  /// Makes a link with queue pairs, not connected yet. Progress thread. @param name of the peer, for messages.
  /// @param epoch number of this connection, unique in the transport. @return errors of VerbsEndpoint::Create.
  virtual StatusOr<std::shared_ptr<VerbsLink>> NewLink(Rank peer, const std::string& name, uint32_t epoch) = 0;
  /// Releases what is on the device; after the progress thread has ended and all links are closed.
  virtual void Stop() = 0;
};

}  // namespace hp

#pragma once

#include "base/clock.h"
#include "hp/status.h"
#include "transport/connect/progress.h"
#include "transport/connect/socket.h"
#include "transport/linked_transport.h"
#include "transport/transport.h"
#include "transport/verbs/frames.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hp {

/// One that goes over queue pairs. Progress thread.
class VerbsLink : public PeerLink {
 public:
  /// What the peer must know to connect its queue pairs to ours.
  virtual StatusOr<VerbsSetup> OwnSetup() = 0;
  /// Connects ours to the peer's. `done` is called once, from here or later, or never if the link is abandoned first.
  virtual void Connect(const VerbsSetup& theirs, std::function<void(const Status&)> done) = 0;
  /// Both sides are connected: reports OnConnected. @param lifeline the connection over which they met; its end is the
  /// peer's end.
  virtual void Open(TcpSocket lifeline) = 0;
};

/// What a transport's parts take from it.
struct VerbsContext {
  ProgressThread* progress = nullptr;
  TransportHandler* handler = nullptr;
  const Clock* clock = nullptr;
  Rank rank = 0;              ///< ours
  int setup_deadline_ms = 0;  ///< for a peer to set RDMA up
};

/// The RDMA device of a transport. No header of libibverbs is needed to use one, so that a build without it can say so.
class VerbsHost {
 public:
  virtual ~VerbsHost() = default;
  virtual std::string Describe() const = 0;
  virtual StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) = 0;
  virtual StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) = 0;
  /// Begins to look after the device's events on the progress thread, before that runs.
  virtual void Start(const VerbsContext& context) = 0;
  /// Makes queue pairs towards a peer. @param epoch counts this transport's connections. Progress thread.
  virtual StatusOr<std::shared_ptr<VerbsLink>> NewLink(Rank peer, const std::string& name, uint32_t epoch) = 0;
  /// After the progress thread has ended and all links are closed.
  virtual void Stop() = 0;
};

}  // namespace hp

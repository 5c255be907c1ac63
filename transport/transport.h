#pragma once

#include "base/rank.h"
#include "hp/status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// What a grant is for: both sides compute it from the table, so that a grant finds its write without a question.
struct PlaceTag {
  uint64_t msg_id = 0;   ///< of the pipeline that the tensor belongs to
  uint32_t channel = 0;  ///< which tensor between which two nodes

  bool operator==(const PlaceTag&) const = default;
  auto operator<=>(const PlaceTag&) const = default;
};

/// Names one open grant of a peer; only the transport looks inside.
struct RemoteGrant {
  uint32_t index = 0;
  uint32_t generation = 0;
};

/// What a transport tells its node. Called on the progress thread, one call at a time, never under a transport lock,
/// never from inside a Post. Must not block; may post.
class TransportHandler {
 public:
  virtual ~TransportHandler() = default;

  /// The handshake with `peer` is done: posts to it are accepted from now on.
  virtual void OnConnected(Rank peer) = 0;
  /// `peer` is in the table and will not be connected: kDeadlineExceeded, it did not appear in time (the message names
  /// it and its address); else what our policy said about its hello. Each peer of the table gets one of OnConnected,
  /// OnConnectFailed and HandshakePolicy::OnRefused.
  virtual void OnConnectFailed(Rank peer, const Status& status) = 0;
  /// `peer` granted us the right to write `bytes` bytes once, for `tag`.
  virtual void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) = 0;
  /// A grant of ours ended: ok, the bytes are in their place; kCancelled, the writer gave it up; else the endpoint
  /// failed. Nothing writes there any more (copies between GPUs: only if it is ok or kCancelled, see README.md); unless
  /// ok, what the place holds is undefined.
  virtual void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) = 0;
  /// A write of ours ended: its source may be reused.
  virtual void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) = 0;
  /// An eager message arrived. `bytes` is valid during the call.
  virtual void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) = 0;
  /// The connection to `peer` is gone, after all its grants and writes were reported. kCancelled: both sides ended it
  /// in order (Shutdown); kUnavailable: it broke. Once per OnConnected. Posts to `peer` fail from just before on.
  virtual void OnClosed(Rank peer, const Status& status) = 0;
  /// There was no memory for something on the progress thread (kResourceExhausted), and an event is lost: the node must
  /// end. May be called again. By default the process ends (ExitWhenOutOfMemory).
  virtual void OnOutOfMemory(const Status& status);
};

/// Decides who may talk to us. Called on the progress thread.
class HandshakePolicy {
 public:
  virtual ~HandshakePolicy() = default;
  /// What we say first; at most kMaxHelloBytes.
  virtual std::string Hello() = 0;
  /// What we say to one that came to us with `hello` and was accepted; at most kMaxHelloBytes.
  virtual std::string Answer(std::string_view /*hello*/) { return Hello(); }
  /// The node of the job in whose name a hello speaks, before anything else of it is looked at: where connections come
  /// over a network, it must come from that node's host. -1: a client's, unreadable, or it may come from anywhere.
  virtual Rank ClaimedRank(std::string_view /*hello*/) const { return -1; }
  /// Whether a hello is of a client that wants to give orders. It has to prove that it may: by the job's token, or
  /// where there is none by coming from this node's own host.
  virtual bool ClaimsControl(std::string_view /*hello*/) const { return false; }
  /// Reads the other side's hello. @return its rank, or the reason for dropping the connection (logged once; and
  /// sent to a peer that did speak our protocol, so that it can say what differs). A client, which is no node of the
  /// table, gets a rank >= kFirstClientRank that is not in use; clients may come and go at any time.
  virtual StatusOr<Rank> Accept(std::string_view hello) = 0;
  /// The client that got this rank from Accept is connected, from "ADDRESS:PORT". Ahead of
  /// TransportHandler::OnConnected; only where connections come over a network.
  virtual void OnClientAddress(Rank /*client*/, const std::string& /*address*/) {}
  /// A well-formed peer refused *us* and said why. There is no further attempt.
  virtual void OnRefused(Rank peer, const Status& reason) = 0;
  /// The refusal of a peer that came to us with `hello` was handed to the kernel, or its connection is gone.
  virtual void OnRefusalSent(std::string_view /*hello*/) {}
};
constexpr size_t kMaxHelloBytes = 64 << 10;

/// Memory that a transport may read from and write into. Released on destruction, after all its uses have ended.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
};

/// A descriptor of device memory for the network adapter.
struct DmaBuf {
  int fd = -1;          ///< the receiver closes it
  uint64_t offset = 0;  ///< of the memory's first byte in it
};

/// Memory of a GPU, described without any type of its driver: `bytes` are addresses that only the device can read.
/// Whoever describes it keeps it allocated while it is registered; the functions may be called from any thread.
struct DeviceMemory {
  std::span<std::byte> bytes;
  int device = 0;           ///< for messages
  std::string pci_address;  ///< of the device, e.g. "0000:3b:00.0"; empty: unknown
  /// Exports all of `bytes`, with the PCIe mapping or without. Null: the driver can't.
  std::function<StatusOr<DmaBuf>(bool pcie_mapping)> export_dma_buf = {};
  /// Copies between the device and the host, either way, before it returns: for adapters that reach no device memory.
  std::function<Status(std::byte* to, const std::byte* from, size_t bytes)> copy = {};
  /// A handle by which another GPU of this host opens all of `bytes`; only the peer's DeviceCopier reads it. Null: none
  /// can.
  std::function<StatusOr<std::string>()> export_handle = {};
};

/// Moves tensors between the nodes of one job: one endpoint for each other rank. Every accepted Write and every Grant
/// completes exactly once. The first error fails the endpoint and ends the rest of it with that Status; other endpoints
/// go on. All posting calls are non-blocking and may come from any thread, also from the handler. A post that returns
/// an error was not accepted, and nothing else follows from it. Order: grants, cancels and messages of one thread to
/// one peer arrive in the order of the calls; writes too, among themselves. What is granted or sent may overtake a
/// write. The bytes on the wire and the states: transport/README.md.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Starts the progress thread and begins to connect to every peer; OnConnected reports each. Once.
  /// @param handler, policy outlive the transport, or at least Stop.
  /// @return kFailedPrecondition: our address can't be bound.
  virtual Status Start(TransportHandler* handler, HandshakePolicy* policy) = 0;

  /// Makes host memory usable; every place and every source must lie in registered memory. Any thread, before Start or
  /// after. @return what releases it on destruction; kFailedPrecondition: it can't be registered, says what to do.
  virtual StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) = 0;
  /// The same for memory of a GPU. @return kFailedPrecondition: this transport reaches none, or not this.
  virtual StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) {
    return FailedPrecondition("this transport does not reach the memory of GPU %d", memory.device);
  }

  /// Grants `peer` the right to write exactly place.size() bytes into `place`, once. Ends by OnGrantEnded.
  /// An empty place is allowed. @return kUnavailable: the peer is not connected (no OnGrantEnded follows);
  /// kResourceExhausted: kMaxOpenGrants are open.
  virtual Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) = 0;
  /// Writes `source` into a granted place; it must stay unmodified until OnWriteEnded. Uses the grant up.
  /// @return kUnavailable: the peer is not connected; kInvalidArgument: no such grant, another tag, or another length.
  virtual Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) = 0;
  /// Gives a grant back unused: its owner sees kCancelled. Errors as in Write. Rule [cancel]: who gives up ends every
  /// grant that it holds, each by itself or all by the end of the connection.
  virtual Status CancelGrant(Rank peer, RemoteGrant grant) = 0;
  /// Sends a small message (copied; at most kMaxMessageBytes), in order, ahead of bulk data. `type` is the caller's.
  /// @return kUnavailable: the peer is not connected; kInvalidArgument: too long; kResourceExhausted: kMaxQueuedBytes
  /// (of a client: kMaxQueuedForClient) wait to be sent, try again after some were (only a peer that reads slower than
  /// we talk brings this about).
  virtual Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) = 0;

  /// What was posted to `peer` does not wait until the handler, from which this is called, returns: for a handler that
  /// will be long about it. By default nothing, where nothing waits for that.
  virtual void Flush(Rank /*peer*/) {}

  /// When the last byte of `peer` arrived, by the transport's Clock; 0: never.
  virtual int64_t LastHeardNs(Rank peer) const = 0;
  /// When this node last gave the network something for `peer` that the peer hears no later than a message sent at
  /// that time, by the transport's Clock; 0: never. A heartbeat within the interval after it would tell nothing new.
  virtual int64_t LastSentNs(Rank peer) const = 0;
  /// Sends what is queued, then ends the sending side: later posts to `peer` return kUnavailable, what it sends still
  /// arrives. OnClosed(kCancelled) follows when the peer has done the same; grants that are still open then end with
  /// kUnavailable. The end of a client is answered by the transport itself. No effect when `peer` is not connected.
  virtual void Shutdown(Rank peer) = 0;
  /// Ends the connection to `peer` as an error of its own would: OnClosed(kUnavailable) with `cause`, soon. For whoever
  /// finds that what the peer says breaks a rule. No effect when `peer` is not connected.
  virtual void Break(Rank peer, const Status& cause) = 0;
  /// Runs `event` on the progress thread, soon and in the order of the calls, as if it were a call of the handler; not
  /// before Start, and not after Stop.
  virtual void Defer(std::function<void()> event) = 0;
  /// Closes everything and joins the progress thread; no handler call follows, and no place is written to (copies
  /// between GPUs: until the writer has stopped as well) and no source read any more. Not from the handler. The
  /// destructor does it too.
  virtual void Stop() = 0;
};
constexpr size_t kMaxMessageBytes = 1 << 20;
constexpr size_t kMaxQueuedBytes = size_t{256} << 20;    ///< control bytes waiting for one node
constexpr size_t kMaxQueuedForClient = size_t{4} << 20;  ///< for one client, which may ask and not read
constexpr size_t kMaxOpenGrants = 1 << 16;               ///< to one peer

}  // namespace hp

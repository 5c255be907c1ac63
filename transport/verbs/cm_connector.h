#pragma once

#include "hp/status.h"
#include "transport/connect/socket.h"
#include "transport/verbs/device.h"
#include "transport/verbs/frames.h"
#include "transport/verbs/queue_pair.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// Connects our queue pairs to those of one peer by librdmacm, which finds device, route and packet numbers by IP
/// addresses and reports when the connection ends. The queue pairs stay ours (librdmacm knows only their numbers), so
/// that they share our receive queues, completion queue and protection domain. transport/README.md, "Set-up by
/// librdmacm", has the bytes and the steps. Hold it by shared_ptr. Progress thread only; nothing blocks, its event
/// channel is polled like a socket.
///   Open -> AddTo (our SETUP) -> the peer's SETUP arrives -> Connect -> connected ... ended -> Close
class CmConnector : public std::enable_shared_from_this<CmConnector> {
 public:
  struct Callbacks {
    /// Once: ok, all queue pairs are ready to send; else why one is not. May be called from within Connect.
    std::function<void(const Status&)> connected;
    /// At most once, after `connected` was ok: what ended the connection (the peer disconnected, the device was
    /// removed, ...).
    std::function<void(const std::string& what)> ended;
  };
  struct Options {
    std::string peer;      ///< the peer's name, for messages
    Gid address = {};      ///< our IP address as a GID (IPv4 mapped); not link-local
    bool listens = false;  ///< whether we accept (the side of lower rank); false: we connect
    uint32_t epoch = 0;    ///< of our transport's connection, for CmHello
    int deadline_ms = 0;   ///< for all queue pairs to be connected, from Connect
  };

  /// Opens an event channel and, if options.listens, listens on a port that the system chooses.
  /// @return kFailedPrecondition: librdmacm does not work here, or the address does not belong to `device`; says which.
  static StatusOr<std::shared_ptr<CmConnector>> Open(std::shared_ptr<VerbsDevice> device, boost::asio::io_context* io,
                                                     Options options);
  ~CmConnector() { Close(); }

  /// Writes what the peer needs to connect to us into our SETUP: address, port and nonce.
  void AddTo(VerbsSetup* setup) const;
  /// Starts to connect `qps`, or to accept their connection requests. Once, when the peer's SETUP is there.
  /// @param qps as many as both sides have, in the order of both SETUPs; they must outlive Close. @param mtu the most
  /// that both ports take.
  void Connect(const VerbsSetup& theirs, std::vector<QueuePair*> qps, ibv_mtu mtu, Callbacks callbacks);
  /// Destroys all identifiers and the event channel; no callback follows. The peer sees the queue pairs disconnected.
  void Close();

 private:
  /// A queue pair that is being connected, or is.
  struct PendingQueuePair {
    QueuePair* qp = nullptr;
    CmIdHandle id;
    bool up = false;
  };
  /// A connection request, copied: librdmacm's own is acknowledged at once.
  struct Request {
    CmIdHandle id;
    CmHello hello;
    uint32_t qp_number = 0;
  };
  struct Event {
    rdma_cm_id* id = nullptr;
    rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
    int status = 0;
    uint32_t qp_number = 0;
    std::vector<std::byte> private_data;
  };

  static constexpr int kResolveMs = 2000;  // for an address, and for a route

  CmConnector(std::shared_ptr<VerbsDevice> device, boost::asio::io_context* io, Options options);
  Status Prepare();
  Status Listen();
  Status CheckDevice(const rdma_cm_id* id) const;
  rdma_conn_param Parameters(const PendingQueuePair& pending, std::byte* private_data) const;

  void WaitForEvents();
  void TakeEvents();
  void OnEvent(Event event);
  void OnRequest(Event event);
  void Reject(CmIdHandle id, const std::string& why);
  Status Accept(Request request);
  Status Resolve(PendingQueuePair* pending);
  /// The next step of a queue pair. @return why there is none.
  Status Step(PendingQueuePair* pending, const Event& event);
  void Up(PendingQueuePair* pending);
  void Fail(const Status& status);
  void OnDeadline();
  size_t IndexOf(const PendingQueuePair* pending) const { return static_cast<size_t>(pending - pending_.data()); }

  const std::shared_ptr<VerbsDevice> device_;
  Verbs* const verbs_;
  const Options options_;
  const uint64_t nonce_;
  CmChannelHandle channel_;
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  boost::asio::steady_timer timer_;
  CmIdHandle listener_;
  uint16_t port_ = 0;
  std::vector<Request> early_;  // came ahead of the peer's set-up, or too late
  VerbsSetup theirs_;
  ibv_mtu mtu_ = IBV_MTU_256;
  std::vector<PendingQueuePair> pending_;  // empty until Connect
  Callbacks callbacks_;
  bool failed_ = false;
  LogLimiter strangers_;
};

}  // namespace hp

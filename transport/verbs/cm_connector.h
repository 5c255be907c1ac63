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

/// Connects our queue pairs to those of one peer by librdmacm, which finds device, route and packet numbers from IP
/// addresses, and hears from it when they end. The queue pairs stay ours (librdmacm knows their numbers only), so that
/// they share our receive queues, completion queue and protection domain. transport/README.md has the bytes and the
/// steps. Progress thread; nothing blocks: its events are polled with everything else.
class CmConnector : public std::enable_shared_from_this<CmConnector> {
 public:
  struct Callbacks {
    /// Once: all queue pairs are ready to send, or why one is not.
    std::function<void(const Status&)> connected;
    /// Once, later: what ended the connection.
    std::function<void(const std::string& what)> ended;
  };
  struct Options {
    std::string peer;      ///< its name, for messages
    Gid address = {};      ///< ours, an IP address: a GID of RoCE is one
    bool listens = false;  ///< else we are the one to connect
    uint32_t epoch = 0;    ///< of our side
    int deadline_ms = 0;
  };

  /// With an event channel of its own and, if it listens, bound to a port that the system chose.
  /// @return kFailedPrecondition: no librdmacm here, or the address is not that of `device`.
  static StatusOr<std::shared_ptr<CmConnector>> Open(std::shared_ptr<VerbsDevice> device, boost::asio::io_context* io,
                                                     Options options);
  ~CmConnector() { Close(); }

  /// What the peer must know beside its own queue pairs: our address, port and nonce.
  void AddTo(VerbsSetup* setup) const;
  /// @param qps as many as both sides have, in the order of their set-ups; they outlive the connector's Close.
  void Connect(const VerbsSetup& theirs, std::vector<QueuePair*> qps, ibv_mtu mtu, Callbacks callbacks);
  /// Ends everything; no callback follows. The peer's side hears that the queue pairs are disconnected.
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

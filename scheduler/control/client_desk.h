#pragma once

#include "base/rank.h"
#include "proto/control.pb.h"
#include "scheduler/control/boundary_requests.h"
#include "transport/transport.h"

#include <functional>
#include <optional>
#include <string>

namespace hp {

/// Answers clients of the job that ask for its status or give orders (hpctl). A status is answered at once, from what
/// the first node knows; an order when a verdict carries it to all nodes. Orders are logged with who gave them, and how
/// they end; the last one stands in the status. On the first node, owned by it. Progress thread, but answers to orders,
/// which come on that of the verdict.
class ClientDesk {
 public:
  /// All outlive the desk and what it is asked for.
  struct Options {
    Transport* transport = nullptr;
    BoundaryRequests* requests = nullptr;
    std::function<JobStatus()> status;                ///< quick; must not block
    std::function<bool()> training;                   ///< whether orders can be carried out: verdicts are made
    std::function<void()> stop;                       ///< ends a job that does not train yet
    std::function<std::string(Rank client)> address;  ///< from where it came, for the log; empty: unknown
  };
  explicit ClientDesk(Options options) : options_(std::move(options)) {}

  /// kStatusRequest of a client.
  void OnStatusRequest(Rank client);
  /// kOrderRequest of a client that may give one; PeerRules::CheckOrder has passed.
  void OnOrder(Rank client, const JobOrder& order);

 private:
  void Answer(Rank client, const JobOrder& order, const StatusOr<int64_t>& at);
  void Send(Rank client, uint32_t type, const google::protobuf::MessageLite& message);

  const Options options_;
  std::optional<OrderRecord> last_order_;
};

}  // namespace hp

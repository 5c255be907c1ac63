#pragma once

#include "hp/status.h"
#include "proto/control.pb.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// What Prometheus is told of a node.
struct NodeMetrics {
  std::string job, node, role, host, precision;  ///< labels of hpnode_info
  bool training = false;                         ///< else the rest is not known yet
  int64_t iterations = 0;                        ///< done, counted from the job's iteration 0
  int64_t images = 0;                            ///< of training that the node computed since it started
  NodeStatus status;                             ///< MakeNodeStatus
};

/// Serves a node's metrics to Prometheus, at http://ADDRESS:PORT/metrics, on threads of its own, while it exists. Names
/// are hpnode_..., after Prometheus's conventions: base units, _total for what only grows. It has no access control and
/// tells nothing but numbers and names: its address decides who reads it.
class MetricsEndpoint {
 public:
  /// @param address ADDRESS:PORT, as "127.0.0.1:9101" or "[::1]:9101".
  /// @param collect called for each question, on threads of the endpoint, and not after it is destroyed.
  /// @return kInvalidArgument: another form of address; kFailedPrecondition: it can't be listened on, or this program
  /// was built without prometheus-cpp or cpp-httplib.
  static StatusOr<std::unique_ptr<MetricsEndpoint>> Open(const std::string& address,
                                                         std::function<NodeMetrics()> collect);
  virtual ~MetricsEndpoint() = default;
};

}  // namespace hp

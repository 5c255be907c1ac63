#include "report/metrics.h"

namespace hp {

StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Open(const std::string&, std::function<NodeMetrics()>) {
  return FailedPrecondition("--metrics: built without prometheus-cpp (prometheus-cpp-dev)");
}

}  // namespace hp

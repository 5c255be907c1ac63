#include "test/cluster/gpu_under_test.h"

namespace hp::test {

/// Nodes share one GPU, which NCCL refuses: replicas exchange through the host.
StatusOr<NodeDevice> OpenGpuUnderTest(Rank, Precision precision) {
  HP_ASSIGN_OR_RETURN(NodeDevice device, OpenNodeDevice("cuda:0", precision));
  device.connect = nullptr;
  return device;
}

}  // namespace hp::test

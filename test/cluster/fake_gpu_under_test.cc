#include "test/cluster/gpu_under_test.h"
#include "test/support/fake_device.h"

namespace hp::test {

StatusOr<NodeDevice> OpenGpuUnderTest(Rank rank, Precision precision) {
  return FakeDevice({.index = rank, .seed = static_cast<uint32_t>(rank + 1), .protect = true}, precision);
}

}  // namespace hp::test

#include "test/unit/backend/backend_under_test.h"

namespace hp::test {

BackendUnderTest& UnderTest() {
  static BackendUnderTest cpu = {.device = MakeHostDevice(), .backend = MakeCpuBackend(), .blocked_layouts = true};
  return cpu;
}

}  // namespace hp::test

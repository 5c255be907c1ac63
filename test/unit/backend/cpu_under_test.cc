#include "test/unit/backend/backend_under_test.h"

namespace hp::test {

BackendUnderTest& UnderTest() {
  static BackendUnderTest cpu = {MakeHostDevice(), MakeCpuBackend(), true};
  return cpu;
}

}  // namespace hp::test

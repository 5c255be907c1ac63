// Memory that the system refuses while an op runs reaches the thread that computes as std::bad_alloc, also from oneDNN
// and from inside OpenMP regions.
#include "backend/cpu/onednn.h"
#include "test/unit/backend/op_test_util.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <new>

namespace hp::test {
namespace {

TEST(OneDnnTest, OutOfMemoryIsBadAllocAndNothingElseIs) {
  EXPECT_EQ(onednn::OrBadAlloc([] { return 7; }), 7);
  EXPECT_THROW(onednn::OrBadAlloc([] { throw dnnl::error(dnnl_out_of_memory, "a primitive"); }), std::bad_alloc);
  EXPECT_THROW(onednn::OrBadAlloc([] { throw dnnl::error(dnnl_runtime_error, "a primitive"); }), dnnl::error);
}

TEST(LrnDeathTest, ABufferThatCannotBeHad) {
#ifdef HP_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow is larger than any limit of the address space";
#endif
  constexpr int64_t kWindow = (1 << 29) + 1;  // its margins alone take gigabytes
  const auto run = [](LrnDesc::Region region) {
    const TensorDesc in = {Shape{1, 1, 2, 2}, 1};
    auto op = UnderTest().backend->Lrn({region, kWindow, 1.0f, 0.75f, 1.0f}, {in});
    OpRunner runner(op->get(), {in});
    runner.SetInput(0, Values(in.count(), 1.0f));
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = {static_cast<rlim_t>(pages * 4096 + (200 << 20)), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    try {
      runner.Forward();
    } catch (const std::bad_alloc&) {
      std::fputs("bad_alloc", stderr);
      _exit(7);
    }
    _exit(0);
  };
  EXPECT_EXIT(run(LrnDesc::kAcrossChannels), testing::ExitedWithCode(7), "bad_alloc");
  EXPECT_EXIT(run(LrnDesc::kWithinChannel), testing::ExitedWithCode(7), "bad_alloc");
}

}  // namespace
}  // namespace hp::test

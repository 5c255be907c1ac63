#include "base/out_of_memory.h"

#include "base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <vector>

namespace hp {
namespace {

using ::testing::HasSubstr;

TEST(OutOfMemoryTest, BecomesAStatus) {
  const auto doing = [](const auto& work) { return OrOutOfMemory("counting sheep", work); };
  const Status memory = doing([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.message(), "out of memory: counting sheep");
  EXPECT_EQ(ExitStatus(memory), 2);
  const Status vector = doing([] {
    std::vector<double> values;
    values.resize(values.max_size() + 1);
    return OkStatus();
  });
  EXPECT_EQ(vector.message(), memory.message());
  const Status thread = doing(
      []() -> Status { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); });
  EXPECT_EQ(thread.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(thread.message(), HasSubstr("cannot start a thread, counting sheep"));
}

TEST(OutOfMemoryTest, NothingElseDoes) {
  EXPECT_EQ(OrOutOfMemory("", [] { return StatusOr<int>(7); }).value(), 7);
  EXPECT_EQ(OrOutOfMemory("", [] { return DataLoss("torn"); }).message(), "torn");
  const auto fail = [](auto error) { return OrOutOfMemory("", [&error]() -> Status { throw error; }); };
  EXPECT_THROW((void)fail(std::out_of_range("no such key")), std::out_of_range);
  EXPECT_THROW((void)fail(std::system_error(std::make_error_code(std::errc::io_error))), std::system_error);
}

TEST(OutOfMemoryDeathTest, OfAnyThreadEndsTheProcessWithOneLine) {
  const auto run = [](auto error) {
    ExitWhenOutOfMemory();
    Thread("sheep", [&error] { throw error; });
  };
  EXPECT_EXIT(run(std::bad_alloc()), testing::ExitedWithCode(2), "^[^\n]*out of memory \\(thread \"sheep\"\\)\n$");
  EXPECT_EXIT(run(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
              testing::ExitedWithCode(2), "cannot start a thread: .*ulimit -u.* \\(thread \"sheep\"\\)");
  EXPECT_EXIT(run(std::out_of_range("our own fault")), testing::KilledBySignal(SIGABRT), "our own fault");
}

TEST(TryThreadsTest, AsManyAsTheSystemStarts) {
  EXPECT_TRUE(TryThreads(0).ok());
  EXPECT_TRUE(TryThreads(20).ok());
#ifdef HP_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow is larger than any limit of the address space";
#endif
  const auto run = [] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    // Room for some stacks of 8 MiB.
    rlimit limit = {static_cast<rlim_t>(pages * 4096 + (200 << 20)), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    const Status status = TryThreads(1000);
    std::fputs(status.message().c_str(), stderr);
    _exit(ExitStatus(status));
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(2), "the system starts only [0-9]+ of 1000 threads; .*ulimit -v");
}

}  // namespace
}  // namespace hp

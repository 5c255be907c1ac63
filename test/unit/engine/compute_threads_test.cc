#include "engine/compute_threads.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

namespace hp {
namespace {

int64_t ThreadsOfProcess() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(ComputeThreadsTest, AreTakenAndReleased) {
  const int64_t before = ThreadsOfProcess();
  ASSERT_TRUE(TakeComputeThreads(4, "the test needs 4 threads").ok());
  EXPECT_EQ(omp_get_max_threads(), 4);
  EXPECT_EQ(ThreadsOfProcess(), before + 3);
  ReleaseComputeThreads();
  EXPECT_EQ(omp_get_max_threads(), 1);
#ifndef __clang__  // its library keeps them asleep
  for (int ms = 0; ms < 5000 && ThreadsOfProcess() > before; ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ThreadsOfProcess(), before);
#endif
}

}  // namespace
}  // namespace hp

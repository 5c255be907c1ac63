#include "devices/own_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using ::testing::HasSubstr;

StatusOr<int> Own(int local_task, int gpus, const std::string& visible) {
  JobEnvironment job;
  job.local_task = local_task;
  return OwnGpu(job, gpus, [&visible](const char* name) {
    EXPECT_STREQ(name, "CUDA_VISIBLE_DEVICES");
    return visible;
  });
}

TEST(OwnGpuTest, TheOneThatTheSchedulerGave) {
  EXPECT_EQ(*Own(3, 1, "3"), 0);  // CUDA counts what it shows
  EXPECT_EQ(*Own(-1, 1, "GPU-5f1c"), 0);
}

TEST(OwnGpuTest, TheOneOfTheTasksIndexOnItsHost) {
  EXPECT_EQ(*Own(3, 4, "0,1,2,3"), 3);
  EXPECT_EQ(*Own(1, 4, ""), 1);
  EXPECT_EQ(*Own(0, 1, ""), 0);
}

TEST(OwnGpuTest, TheOnlyOne) { EXPECT_EQ(*Own(-1, 1, ""), 0); }

TEST(OwnGpuTest, TooFewOrNobodySays) {
  EXPECT_EQ(Own(1, 1, "").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Own(4, 4, "0,1,2,3").status().message(), HasSubstr("task 4 of its host, counted from 0, and sees 4 GPU"));
  EXPECT_EQ(Own(-1, 0, "").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Own(-1, 2, "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Own(-1, 2, "0,1").status().message(), HasSubstr("sees 2 GPUs, and no scheduler says which"));
}

}  // namespace
}  // namespace hp

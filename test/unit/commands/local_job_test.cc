#include "commands/local_job.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

StatusOr<int> NotAsked() {
  ADD_FAILURE() << "the GPUs are counted for \"all\" alone";
  return 0;
}

TEST(GpusOfFlagTest, NumbersAreTakenAsTheyAre) {
  EXPECT_EQ(*GpusOfFlag("", NotAsked), std::vector<int>());
  EXPECT_EQ(*GpusOfFlag("0", NotAsked), std::vector({0}));
  EXPECT_EQ(*GpusOfFlag("2,0", NotAsked), std::vector({2, 0}));
}

TEST(GpusOfFlagTest, AllAreThoseThatAreCounted) {
  EXPECT_EQ(*GpusOfFlag("all", [] { return StatusOr<int>(3); }), std::vector({0, 1, 2}));
  EXPECT_EQ(GpusOfFlag("all", [] { return StatusOr<int>(0); }).status().message(),
            "--gpu=all: this machine has no GPU");
  const auto fault = GpusOfFlag("all", [] { return StatusOr<int>(FailedPrecondition("no driver")); });
  EXPECT_EQ(fault.status().message(), "--gpu=all: no driver");
  EXPECT_EQ(fault.status().code(), StatusCode::kFailedPrecondition);
}

TEST(GpusOfFlagTest, OtherTextIsRefused) {
  for (const auto& [text, said] :
       {std::pair("0,x", "\"x\" is no GPU"), std::pair("-1", "\"-1\" is no GPU"), std::pair(",", "names no GPU"),
        std::pair("0,1,0", "names GPU 0 twice"), std::pair("0,all", "\"all\" is no GPU")}) {
    const auto gpus = GpusOfFlag(text, NotAsked);
    EXPECT_EQ(gpus.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(gpus.status().message().find(said), std::string::npos) << gpus.status().message();
  }
}

TEST(DeviceOfFlagsTest, TheFirstGpuIsTheDevice) {
  EXPECT_EQ(*DeviceOfFlags("cuda:1", "", NotAsked), "cuda:1");
  EXPECT_EQ(*DeviceOfFlags("cpu", "2", NotAsked), "cuda:2");
  EXPECT_EQ(*DeviceOfFlags("cpu", "3,1", NotAsked), "cuda:3");
  EXPECT_EQ(*DeviceOfFlags("cpu", "all", [] { return StatusOr<int>(1); }), "cuda:0");
  for (const auto& [device, gpu, said] :
       {std::tuple("cuda:1", "1", "name a device each"), std::tuple("cpu", "x", "\"x\" is no GPU")}) {
    const auto name = DeviceOfFlags(device, gpu, NotAsked);
    EXPECT_EQ(name.status().code(), StatusCode::kInvalidArgument) << gpu;
    EXPECT_NE(name.status().message().find(said), std::string::npos) << name.status().message();
  }
}

}  // namespace
}  // namespace hp

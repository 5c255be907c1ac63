#include "devices/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(Devices, TheHostIsAlwaysThere) {
  const auto device = OpenNodeDevice("cpu", RoutingTableConfig::FP32);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE(device->device->is_host());
  EXPECT_EQ(device->describe, nullptr);
  EXPECT_THAT(DescribeDevices(), testing::HasSubstr("cpu "));
  EXPECT_EQ(DescribeCpu().find("precision FP32 or BF16") != std::string::npos, CpuMultipliesBFloat16());
}

/// On a host without GPUs as on one with fewer: the device is named, and nothing ends the process.
TEST(Devices, AGpuThatIsNotThereIsNamed) {
  const auto device = OpenNodeDevice("cuda:1000", RoutingTableConfig::TF32);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(ExitStatus(device.status()), 2);
  EXPECT_THAT(device.status().message(), testing::HasSubstr("device cuda:1000: "));
}

/// The GPU of a scheduler's task: one of this host, or what a host without any always says.
TEST(Devices, ATasksOwnGpu) {
  const auto device = OpenNodeDevice("cuda", RoutingTableConfig::FP32);
  if (device.ok()) {
    EXPECT_FALSE(device->device->is_host());
    return;
  }
  EXPECT_EQ(ExitStatus(device.status()), 2);
  EXPECT_THAT(device.status().message(), testing::HasSubstr("device cuda: "));
}

TEST(Devices, AWrongNameIsNamed) {
  const auto device = OpenNodeDevice("gpu0", RoutingTableConfig::FP32);
  EXPECT_EQ(device.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(device.status().message(), testing::HasSubstr("\"gpu0\"; expected \"cpu\", \"cuda\" or \"cuda:N\""));
}

}  // namespace
}  // namespace hp

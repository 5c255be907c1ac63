// What a transport is told of a GPU's memory.
#include "test/support/fake_gpu.h"

#include "devices/cuda_devices.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace hp::test {
namespace {

TEST(GpuMemory, IsExportedWhereTheGpuCan) {
  for (bool dma_buf : {true, false}) {
    FakeGpu::Options options;
    options.index = 2;
    options.dma_buf = dma_buf;
    FakeGpu gpu(options);
    const auto buffer = gpu.Allocate(8192);
    ASSERT_TRUE(buffer.ok());
    const DeviceMemory memory = DescribeGpuMemory(&gpu, ThisPlace(), buffer->span());
    EXPECT_EQ(memory.device, 2);
    EXPECT_EQ(memory.pci_address, gpu.info().pci_address);
    EXPECT_EQ(memory.bytes.data(), buffer->data());
    ASSERT_EQ(memory.export_dma_buf != nullptr, dma_buf);
    if (!dma_buf) continue;
    const auto exported = memory.export_dma_buf(true);
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_GE(exported->fd, 0);
    EXPECT_EQ(close(exported->fd), 0);
  }
}

/// For adapters that reach no memory of a GPU: what only queued work can touch comes to the host, and back.
TEST(GpuMemory, IsCopiedAtOnce) {
  FakeGpu::Options options;
  options.protect = true;
  FakeGpu gpu(options);
  const auto buffer = gpu.Allocate(1000);
  ASSERT_TRUE(buffer.ok());
  const DeviceMemory memory = DescribeGpuMemory(&gpu, ThisPlace(), buffer->span());
  std::vector<std::byte> there(1000, std::byte{7}), back(1000);
  ASSERT_TRUE(memory.copy(buffer->data(), there.data(), there.size()).ok());
  ASSERT_TRUE(memory.copy(back.data(), buffer->data(), back.size()).ok());
  EXPECT_EQ(back, there);
  gpu.Fail(InternalError("gone"));
  EXPECT_EQ(memory.copy(back.data(), buffer->data(), 1).message(), "gone");
}

}  // namespace
}  // namespace hp::test

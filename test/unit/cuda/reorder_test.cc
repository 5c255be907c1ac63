#include "backend/cuda/reorder.h"

#include "backend/cuda/ops.h"
#include "test/unit/backend/op_test_util.h"
#include "test/unit/cuda/gpu_under_test.h"

namespace hp::test {
namespace {

GpuStream Stream() { return GpuUnderTest().stream(Device::kCompute); }

void Synchronize() { ASSERT_TRUE(GpuUnderTest().Synchronize().ok()); }

/// Full and broken squares of 32, few channels, few pixels, weights of a convolution.
const Shape kShapes[] = {{2, 16, 3, 3}, {1, 32, 8, 8}, {3, 5, 2, 2}, {2, 33, 7, 9}, {2, 3, 40, 5},   {5, 96, 11, 1},
                         {2, 32, 1, 1}, {2, 24, 70},   {3, 7},       {1, 9, 8, 8},  {2, 64, 32, 32}, {4, 1, 5, 5}};

TEST(CopyLayout, BetweenAnyTwoLayouts) {
  for (const Shape& shape : kShapes) {
    for (const TensorDesc& from : LayoutsOf(shape)) {
      for (const TensorDesc& to : LayoutsOf(shape)) {
        SCOPED_TRACE("[" + shape.ToString() + "] from " + std::to_string(from.channel_block) + " to " +
                     std::to_string(to.channel_block));
        const Values x = RandomValues(shape.count(), 3);
        Values source(x.size() + 1), target(x.size() + 1, 77);
        // One float off: copies must do without aligned memory.
        for (const int shift : {0, 1}) {
          const Tensor in = {from, source.data() + shift}, out = {to, target.data() + shift};
          WriteTensor(in, x);
          cuda::CopyLayout(Stream(), from, in.data, to, out.data);
          if (UnderTest().waits) EXPECT_EQ(target[shift], 77);
          Synchronize();
          EXPECT_EQ(ReadTensor(out), x);
          std::fill(target.begin(), target.end(), 77.0f);
        }
      }
    }
  }
}

TEST(CopyLayout, BetweenDenseTensorsOfOtherShapes) {
  const Values x = RandomValues(24, 1);
  Values y(24);
  cuda::CopyLayout(Stream(), {{2, 3, 4}, 1}, x.data(), {{6, 4}, 1}, y.data());
  Synchronize();
  EXPECT_EQ(y, x);
}

/// More sources than one kernel takes, for which float addition depends on the order.
TEST(SumFromDense, AddsAnyNumberOfSourcesInOrder) {
  for (const Shape& shape : {Shape{2, 16, 9, 5}, Shape{2, 3, 5, 5}, Shape{3, 11}}) {
    for (const TensorDesc& to : LayoutsOf(shape)) {
      for (const int count : {0, 1, 2, 16, 17, 40}) {
        SCOPED_TRACE(std::to_string(count) + " sources in blocks of " + std::to_string(to.channel_block));
        std::vector<Values> sources;
        std::vector<const void*> pointers;
        Values want(shape.count()), memory(shape.count(), std::nanf(""));
        for (int k = 0; k < count; ++k) {
          sources.push_back(RandomValues(shape.count(), 10 + k, -1e4f, 1e4f));
          for (size_t i = 0; i < want.size(); ++i) want[i] = k == 0 ? sources[k][i] : want[i] + sources[k][i];
        }
        for (const Values& source : sources) pointers.push_back(source.data());
        cuda::SumFromDense(Stream(), pointers, to, memory.data());
        Synchronize();
        EXPECT_EQ(ReadTensor({to, memory.data()}), want);
      }
    }
  }
}

}  // namespace
}  // namespace hp::test

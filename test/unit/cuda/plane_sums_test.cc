#include "backend/cuda/plane_sums.h"

#include "backend/cuda/add_bias.h"
#include "test/unit/backend/op_test_util.h"
#include "test/unit/cuda/gpu_under_test.h"

namespace hp::test {
namespace {

/// Planes smaller and larger than a piece, and pieces that don't come out even.
const Shape kShapes[] = {{1, 1, 1, 1}, {2, 3, 3, 3}, {3, 5, 40, 41}, {7, 2, 1, 1}, {300, 3, 7, 7}, {1, 2, 150, 151}};

GpuStream Stream() { return GpuUnderTest().stream(Device::kCompute); }

void Synchronize() { ASSERT_TRUE(GpuUnderTest().Synchronize().ok()); }

/// Whole numbers, whose sums are exact in any order.
TEST(PlaneSums, SumEveryElementOnce) {
  for (const Shape& shape : kShapes) {
    for (const bool add : {false, true}) {
      SCOPED_TRACE(testing::Message() << "[" << shape << "]" << (add ? " added" : ""));
      const int64_t channels = shape[1], pixels = shape.count(2), floats = cuda::PlaneSumsScratch(shape);
      Values from(shape.count()), to(channels, add ? 1.0f : std::nanf("")), want(channels, add ? 1.0f : 0.0f),
          scratch(floats + 1, 12345);
      for (size_t i = 0; i < from.size(); ++i) {
        from[i] = static_cast<float>(i % 97) - 40;
        want[i / pixels % channels] += from[i];
      }
      cuda::PlaneSums(Stream(), shape, from.data(), add, to.data(), scratch.data());
      Synchronize();
      EXPECT_EQ(to, want);
      EXPECT_EQ(scratch[floats], 12345);
    }
  }
}

/// The bits of the two passes it replaces.
TEST(ReluPlaneSums, AreThoseOfTheTwoPasses) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "[" << shape << "]");
    const int64_t channels = shape[1], floats = cuda::PlaneSumsScratch(shape);
    const Values y = RandomValues(shape.count(), 1);
    Values dy = RandomValues(shape.count(), 2), masked = dy;
    for (size_t i = 0; i < masked.size(); ++i) masked[i] *= y[i] > 0 ? 1.0f : 0.0f;
    Values unsummed = dy, sums(floats), scratch(floats), got(channels, 1), want(channels, 1);
    cuda::ReluPlaneSums(Stream(), shape, y.data(), dy.data(), sums.data());
    cuda::AddPlaneSums(Stream(), shape, sums.data(), true, got.data());
    cuda::ReluPlaneSums(Stream(), shape, y.data(), unsummed.data(), nullptr);
    cuda::PlaneSums(Stream(), shape, masked.data(), true, want.data(), scratch.data());
    Synchronize();
    EXPECT_EQ(dy, masked);
    EXPECT_EQ(unsummed, masked);
    EXPECT_EQ(got, want);
  }
}

/// Each convolution with a ReLU keeps them for each solver.
TEST(PlaneSumsScratch, IsOfManyPiecesAndOfFewMegabytes) {
  const int64_t most = 512 * 1024;
  for (const int64_t channels : {1, 3, 64, 96, 512, 4096, 1000000}) {
    for (const int64_t pixels : {1, 49, 169, 3025, 50176}) {
      for (const int64_t images : {1, 32, 256}) {
        SCOPED_TRACE(testing::Message() << images << " x " << channels << " x " << pixels);
        const int64_t floats = cuda::PlaneSumsScratch({images, channels, pixels, 1}), pieces = floats / channels;
        EXPECT_EQ(floats, pieces * channels);
        EXPECT_LE(floats, std::max(most, channels));
        EXPECT_GE(pieces, 1);
        EXPECT_LE(pieces, 16 * 1024) << "a thread of the last kernel would add up too many";
        // 2,048 blocks of threads are as many as an H200 runs at once, and more.
        if (channels >= 64 && channels <= 4096 && images * pixels * channels >= 2048 * 8192) {
          EXPECT_GE(floats, 1024) << "few blocks";
        }
      }
    }
  }
}

TEST(AddChannelBias, AddsToEachChannelInEitherLayout) {
  for (const Shape& shape : kShapes) {
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(testing::Message() << "[" << shape << "] in blocks of " << desc.channel_block);
        const Values y = RandomValues(shape.count(), 1), bias = RandomValues(shape[1], 2);
        Values memory(shape.count()), want = y;
        WriteTensor({desc, memory.data()}, y);
        for (size_t i = 0; i < want.size(); ++i) {
          const float sum = want[i] + bias[i / shape.count(2) % shape[1]];
          want[i] = relu ? std::max(0.0f, sum) : sum;
        }
        cuda::AddChannelBias(Stream(), desc, bias.data(), memory.data(), relu);
        Synchronize();
        EXPECT_EQ(ReadTensor({desc, memory.data()}), want);
      }
    }
  }
}

}  // namespace
}  // namespace hp::test

#include "backend/cuda/channel_sums.h"
#include "test/unit/cuda/gpu_under_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

cuda::Channels ShapeOf(int64_t rows, int64_t channels, int64_t pixels, bool nhwc) {
  cuda::Channels shape(rows, channels, pixels);
  shape.nhwc = nhwc;
  return shape;
}

/// A place in memory: NHWC, or NCHW.
int64_t PlaceOf(const cuda::Channels& shape, int64_t row, int64_t channel, int64_t pixel) {
  const int64_t in_row = shape.nhwc ? pixel * shape.channels + channel : channel * shape.pixels + pixel;
  return row * shape.channels * shape.pixels + in_row;
}

/// From one line to so many that they are cut into pieces, which don't come out even; packs of 4 and of 8, and none.
template <typename Body>
void ForEachShape(const Body& body) {
  for (const bool nhwc : {false, true}) {
    for (const int64_t channels : {1, 3, 4, 8, 12, 16, 70}) {
      for (const auto& [rows, pixels] :
           {std::pair<int64_t, int64_t>{1, 1}, {2, 9}, {3, 33}, {1, 300}, {2, 1033}, {700, 1}}) {
        SCOPED_TRACE((nhwc ? "NHWC " : "NCHW ") + std::to_string(rows) + ", " + std::to_string(channels) + ", " +
                     std::to_string(pixels));
        body(ShapeOf(rows, channels, pixels, nhwc));
      }
    }
  }
}

template <typename Value>
struct PutValue {
  Value* to;
  HP_HOST_DEVICE void operator()(int64_t i, const Value& value) const { to[i] = value; }
};

/// Whole numbers, whose sums are exact in any order: of each channel, and of each row's channel.
template <typename T>
void CheckGradientSums() {
  using Sums = cuda::GradientSums<T>;
  using Value = typename Sums::Value;
  const GpuStream stream = GpuUnderTest().stream(Device::kCompute);
  ForEachShape([&](const cuda::Channels& shape) {
    for (const int64_t shift : {0, 1}) {
      const int64_t count = shape.rows * shape.channels * shape.pixels, items = shape.rows * shape.channels;
      ReachableVector<T> z(count + shift), dy(count + shift);
      for (int64_t i = 0; i < count; ++i) {
        Put(static_cast<float>(i % 7) - 3, &z[i + shift]);
        Put(static_cast<float>(i % 5) - 1, &dy[i + shift]);
      }
      std::vector<Value> want_all(shape.channels, Value{0, 0}), want_each(items, Value{0, 0});
      for (int64_t row = 0; row < shape.rows; ++row) {
        for (int64_t channel = 0; channel < shape.channels; ++channel) {
          for (int64_t pixel = 0; pixel < shape.pixels; ++pixel) {
            const int64_t at = PlaceOf(shape, row, channel, pixel) + shift;
            for (Value* to : {&want_all[channel], &want_each[row * shape.channels + channel]}) {
              to->sum += ToFloat(dy[at]), to->product += ToFloat(dy[at]) * ToFloat(z[at]);
            }
          }
        }
      }
      const Sums of = {z.data() + shift, dy.data() + shift};
      const int64_t for_all = cuda::ChannelValues(shape), for_each = cuda::EachChannelValues(shape);
      ReachableVector<Value> scratch(for_all + 1, Value{-5, -5}), scratch_each(for_each + 1, Value{-5, -5});
      ReachableVector<Value> all(shape.channels, Value{}), each(items, Value{});
      cuda::ReduceChannels(stream, shape, of, scratch.data(), PutValue<Value>{all.data()});
      cuda::ReduceEachChannel(stream, shape, of, scratch_each.data(), PutValue<Value>{each.data()});
      ASSERT_TRUE(GpuUnderTest().Synchronize().ok());
      for (int64_t i = 0; i < shape.channels; ++i) {
        ASSERT_EQ(all[i].sum, want_all[i].sum) << i;
        ASSERT_EQ(all[i].product, want_all[i].product) << i;
      }
      for (int64_t i = 0; i < items; ++i) {
        ASSERT_EQ(each[i].sum, want_each[i].sum) << i;
        ASSERT_EQ(each[i].product, want_each[i].product) << i;
      }
      EXPECT_EQ(scratch[for_all].sum, -5);
      EXPECT_EQ(scratch_each[for_each].sum, -5);
    }
  });
}

TEST(GradientSums, TakeEveryElementOnce) {
  CheckGradientSums<float>();
  CheckGradientSums<Bfloat16>();
  CheckGradientSums<Float16>();
}

/// Means are far from zero and from the first element of a channel, where differences of squares would lose all digits.
TEST(MomentsOf, AreExactFarFromZero) {
  using Moments = cuda::MomentsOf<float>;
  const GpuStream stream = GpuUnderTest().stream(Device::kCompute);
  ForEachShape([&](const cuda::Channels& shape) {
    const int64_t numbers = shape.rows * shape.pixels;
    ReachableVector<float> x(numbers * shape.channels);
    std::vector<double> mean(shape.channels), squares(shape.channels);
    const auto for_each = [&](auto visit) {
      for (int64_t channel = 0; channel < shape.channels; ++channel) {
        for (int64_t row = 0; row < shape.rows; ++row) {
          for (int64_t pixel = 0; pixel < shape.pixels; ++pixel) visit(channel, row, pixel);
        }
      }
    };
    for_each([&](int64_t channel, int64_t row, int64_t pixel) {
      const int64_t i = (row * shape.channels + channel) * shape.pixels + pixel;
      const float first = row == 0 && pixel == 0 ? 40.0f : 0.0f;
      float& to = x[PlaceOf(shape, row, channel, pixel)];
      to = 2000 + first + static_cast<float>(i * 2654435761u % 1009) / 512;
      mean[channel] += static_cast<double>(to) / static_cast<double>(numbers);
    });
    for_each([&](int64_t channel, int64_t row, int64_t pixel) {
      const double difference = x[PlaceOf(shape, row, channel, pixel)] - mean[channel];
      squares[channel] += difference * difference;
    });
    ReachableVector<Moments::Value> scratch(cuda::ChannelValues(shape)), got(shape.channels);
    cuda::ReduceChannels(stream, shape, Moments{x.data()}, scratch.data(), PutValue<Moments::Value>{got.data()});
    ASSERT_TRUE(GpuUnderTest().Synchronize().ok());
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      EXPECT_EQ(got[channel].count, static_cast<float>(numbers));
      EXPECT_NEAR(got[channel].mean, mean[channel], 1e-3);
      EXPECT_NEAR(got[channel].squares, squares[channel], 2e-5 * squares[channel]);
      EXPECT_GE(got[channel].squares, 0);
    }
  });
}

TEST(MomentsOf, HandNansOn) {
  using Moments = cuda::MomentsOf<float>;
  const cuda::Channels shape = ShapeOf(2, 8, 50, true);
  ReachableVector<float> x(800, 1.0f);
  x[8 * 40 + 3] = std::nanf("");
  ReachableVector<Moments::Value> scratch(cuda::ChannelValues(shape)), got(8);
  cuda::ReduceChannels(GpuUnderTest().stream(Device::kCompute), shape, Moments{x.data()}, scratch.data(),
                       PutValue<Moments::Value>{got.data()});
  ASSERT_TRUE(GpuUnderTest().Synchronize().ok());
  for (int64_t channel = 0; channel < 8; ++channel) {
    EXPECT_EQ(std::isnan(got[channel].mean), channel == 3);
    EXPECT_EQ(std::isnan(got[channel].squares), channel == 3);
  }
  EXPECT_EQ(got[0].mean, 1);
  EXPECT_EQ(got[0].squares, 0);
}

/// Enough threads for a large GPU, and a last kernel that is short.
TEST(ChannelLines, AreManyPiecesAndFewMegabytes) {
  for (const int64_t channels : {2, 64, 256, 2048, 500000}) {
    for (const int64_t pixels : {1, 49, 3136, 12544, 50176}) {
      SCOPED_TRACE(std::to_string(channels) + " channels of " + std::to_string(pixels) + " pixels");
      for (const auto& lines :
           {cuda::ChannelLines(1, 64 * pixels, channels), cuda::ChannelLines(64, pixels, channels)}) {
        const int64_t values = lines.groups * lines.pieces * channels;
        EXPECT_LE(values, std::max<int64_t>(256 * 1024, lines.groups * channels));
        EXPECT_LE(lines.pieces, 4096);
        EXPECT_GE(lines.pieces * lines.lines_in_piece, lines.lines);
        EXPECT_LT((lines.pieces - 1) * lines.lines_in_piece, lines.lines);
      }
    }
  }
  EXPECT_GE(cuda::ChannelLines(1, 64 * 12544, 64).pieces, 4000);
}

}  // namespace
}  // namespace hp::test

#include "base/philox.h"
#include "test/unit/layers/layer_test_util.h"

#include <cmath>

namespace hp::test {
namespace {

constexpr uint64_t kSeed = 7;  // LayerUnderTest's
const char* const kDropout =
    R"(name: "drop" type: "Dropout" bottom: "x" top: "x" dropout_param { dropout_ratio: 0.3 })";

/// The contract in words of base/philox.h: unit u of sample s is kept if word u % 4 of counter (s, u / 4) exceeds the
/// ratio.
float Factor(uint64_t sample, int64_t unit, float ratio = 0.3f, const std::string& layer = "drop") {
  const auto words = Philox4x32(StreamKey(kSeed, layer, "dropout"), sample, static_cast<uint64_t>(unit / 4));
  return UnitFloat(words[unit % 4]) > ratio ? 1 / (1 - ratio) : 0;
}

Values Expected(const Values& x, int64_t rows, uint64_t first_sample) {
  Values y = x;
  const int64_t units = static_cast<int64_t>(x.size()) / rows;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    y[i] *= Factor(first_sample + index / units, index % units);
  }
  return y;
}

/// Shapes that meet every path: whole and broken groups of 64 units, several runs of a row, tiles of a wide NHWC block,
/// more pixels than a tile's buffer.
TEST(Dropout, MaskIsAFunctionOfSampleAndLogicalUnit) {
  for (const Shape& shape : {Shape{3, 5000}, Shape{2, 16, 3, 2}, Shape{2, 48, 5, 5}, Shape{1, 20, 2, 3},
                             Shape{2, 16, 20, 20}, Shape{4, 7}}) {
    const Values x = RandomValues(shape.count(), 4, 0.5f, 1.5f), dy = RandomValues(shape.count(), 5);
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      for (bool in_place : {false, true}) {
        SCOPED_TRACE(Describe(desc) + (in_place ? " in place" : ""));
        LayerUnderTest layer(kDropout);
        Op* op = layer.MakeOp({desc});
        EXPECT_EQ(op->outputs()[0], desc);
        EXPECT_EQ(op->saved_bytes(), 0u);
        OpRunner runner(op, {desc}, {}, in_place);
        runner.batch().first_sample = 12345678901ull;
        runner.SetInput(0, x);
        runner.SetOutputGradient(0, dy);
        runner.Forward();
        EXPECT_EQ(runner.Output(), Expected(x, shape[0], 12345678901ull));
        runner.BackwardInput();
        EXPECT_EQ(runner.InputGradient(), Expected(dy, shape[0], 12345678901ull));
      }
    }
  }
}

TEST(Dropout, Gradient) {
  for (bool in_place : {false, true}) {
    LayerUnderTest layer(kDropout);
    const TensorDesc desc = {{2, 16, 2, 2}, 16};
    OpRunner runner(layer.MakeOp({desc}), {desc}, {}, in_place);
    runner.SetInput(0, RandomValues(desc.count(), 6));
    CheckGradients(&runner);
  }
}

/// A layer's own phase counts, whatever the batch is for.
TEST(Dropout, OwnPhase) {
  const Shape shape = {3, 40};
  const Values x = RandomValues(shape.count(), 4, 0.5f, 1.5f), dy = RandomValues(shape.count(), 5);
  for (const bool train : {false, true}) {
    LayerUnderTest layer(kDropout + std::string(train ? " phase: TRAIN" : " phase: TEST"));
    OpRunner runner(layer.MakeOp({{shape}}), {{shape}});
    runner.batch().train = !train;
    runner.batch().first_sample = 12;
    runner.SetInput(0, x);
    runner.SetOutputGradient(0, dy);
    runner.Forward();
    EXPECT_EQ(runner.Output(), train ? Expected(x, shape[0], 12) : x);
    runner.BackwardInput();
    EXPECT_EQ(runner.InputGradient(), train ? Expected(dy, shape[0], 12) : dy);
  }
}

/// Rows [begin, end) and channels [c_begin, c_end) of the whole, computed as one shard's micro-batch.
Values Part(const Values& x, const Shape& whole, int64_t begin, int64_t end, int64_t c_begin, int64_t c_end,
            int64_t block) {
  const int64_t channels = whole[1], pixels = whole.count(2);
  Values part;
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t i = c_begin * pixels; i < c_end * pixels; ++i) part.push_back(x[n * channels * pixels + i]);
  }
  LayerUnderTest layer(kDropout);
  layer.context().channel_begin = c_begin, layer.context().channel_end = c_end;
  layer.context().channel_count = channels;
  const TensorDesc desc = {whole.With(0, end - begin).With(1, c_end - c_begin), block};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.batch().first_sample = 100 + static_cast<uint64_t>(begin);
  runner.SetInput(0, part);
  runner.Forward();
  return runner.Output();
}

TEST(Dropout, DivisionIntoMicroBatchesAndShardsChangesNoBit) {
  for (const Shape& whole : {Shape{6, 101}, Shape{6, 21, 3, 3}}) {
    const Values x = RandomValues(whole.count(), 8);
    const Values y = Part(x, whole, 0, 6, 0, whole[1], 1);
    const int64_t pixels = whole.count(2), units = whole.count(1);
    for (int64_t rows : {1, 4, 6}) {
      for (int64_t channels : {1, 5, 8, 21}) {
        for (int64_t n = 0; n < 6; n += rows) {
          for (int64_t c = 0; c < whole[1]; c += channels) {
            const int64_t n_end = std::min<int64_t>(6, n + rows), c_end = std::min(whole[1], c + channels);
            const Values part = Part(x, whole, n, n_end, c, c_end, whole.rank() > 2 ? c_end - c : 1);
            size_t i = 0;
            for (int64_t row = n; row < n_end; ++row) {
              for (int64_t u = c * pixels; u < c_end * pixels; ++u) ASSERT_EQ(part[i++], y[row * units + u]);
            }
          }
        }
      }
    }
  }
}

TEST(Dropout, TestPassesItsInputOn) {
  for (bool in_place : {false, true}) {
    LayerUnderTest layer(kDropout);
    const TensorDesc desc = {{2, 16, 3, 3}, 16};
    OpRunner runner(layer.MakeOp({desc}), {desc}, {}, in_place);
    runner.batch().train = false;
    const Values x = RandomValues(desc.count(), 9);
    runner.SetInput(0, x);
    runner.Forward();
    EXPECT_EQ(runner.Output(), x);
  }
}

TEST(Dropout, KeepsItsShareAndMean) {
  const TensorDesc desc = {{100, 1000}, 1};
  LayerUnderTest layer(kDropout);
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.SetInput(0, Values(desc.count(), 1.0f));
  runner.Forward();
  double kept = 0, sum = 0;
  for (float y : runner.Output()) kept += y != 0, sum += y;
  EXPECT_NEAR(kept / 1e5, 0.7, 0.006);
  EXPECT_NEAR(sum / 1e5, 1, 0.01);
}

TEST(Dropout, RatioZeroKeepsAll) {
  LayerUnderTest layer(R"(name: "drop" type: "Dropout" bottom: "x" top: "y" dropout_param { dropout_ratio: 0 })");
  const TensorDesc desc = {{10, 1000}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  const Values x = RandomValues(desc.count(), 10);
  runner.SetInput(0, x);
  runner.Forward();
  EXPECT_EQ(runner.Output(), x);
}

TEST(Dropout, RatioOneOfATestKeepsAll) {
  LayerUnderTest layer(R"(name: "drop" type: "Dropout" bottom: "x" top: "y" dropout_param { dropout_ratio: 1 })");
  const TensorDesc desc = {{10, 1000}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.batch().train = false;
  const Values x = RandomValues(desc.count(), 11);
  runner.SetInput(0, x);
  runner.Forward();
  EXPECT_EQ(runner.Output(), x);
}

TEST(Dropout, SeedLayerAndSampleMatter) {
  const TensorDesc desc = {{1, 256}, 1};
  const auto mask = [&](uint64_t seed, const std::string& name, uint64_t sample) {
    LayerUnderTest layer("name: \"" + name + "\" type: \"Dropout\" bottom: \"x\" top: \"y\"");
    layer.context().seed = seed;
    OpRunner runner(layer.MakeOp({desc}), {desc});
    runner.batch().first_sample = sample;
    runner.SetInput(0, Values(256, 1.0f));
    runner.Forward();
    return runner.Output();
  };
  const Values first = mask(1, "a", 0);
  EXPECT_EQ(first, mask(1, "a", 0));
  EXPECT_NE(first, mask(2, "a", 0));
  EXPECT_NE(first, mask(1, "b", 0));
  EXPECT_NE(first, mask(1, "a", 1));
}

}  // namespace
}  // namespace hp::test

#include "base/philox.h"
#include "test/unit/layers/layer_test_util.h"

#include <map>

namespace hp::test {
namespace {

constexpr uint64_t kKey = 77;

PoolingDesc Desc(int64_t kernel, int64_t stride) {
  return {.method = PoolingDesc::kStochastic,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .stream_key = kKey};
}

/// Values of a window of a dense image, clipped at its end, and where they stand.
std::vector<int64_t> Window(const Shape& in, int64_t plane, int64_t row, int64_t column, int64_t kernel,
                            int64_t stride) {
  std::vector<int64_t> places;
  for (int64_t h = row * stride; h < std::min(row * stride + kernel, in[2]); ++h) {
    for (int64_t w = column * stride; w < std::min(column * stride + kernel, in[3]); ++w) {
      places.push_back((plane * in[2] + h) * in[3] + w);
    }
  }
  return places;
}

class StochasticPoolingTest : public testing::TestWithParam<int64_t> {  // the kernel; above 16 places take 4 bytes
 protected:
  int64_t stride() const { return GetParam() / 2 + 1; }
};

TEST_P(StochasticPoolingTest, DrawsAndRoutesGradientsInEveryLayout) {
  const int64_t kernel = GetParam();
  const Shape shape = {2, 16, 18, 19};
  for (const TensorDesc& in : LayoutsOf(shape)) {
    SCOPED_TRACE(in.channel_block);
    auto op = UnderTest().backend->Pooling(Desc(kernel, stride()), {in});
    ASSERT_TRUE(op.ok()) << op.status();
    OpRunner runner(op->get(), {in});
    runner.batch().first_sample = (uint64_t{1} << 33) + 5;
    Values x = RandomValues(in.count(), 1, -0.5f, 1);  // a third has no weight
    runner.SetInput(0, x);
    const Shape out = (*op)->outputs()[0].shape;
    const Values dy = RandomValues(out.count(), 2);
    runner.SetOutputGradient(0, dy);
    runner.Forward();
    const Values y = runner.Output();
    Values dx(x.size());
    for (int64_t i = 0; i < out.count(); ++i) {
      const int64_t sample = i / out.count(1), unit = i % out.count(1);
      const uint32_t word = Philox4x32(kKey, runner.batch().first_sample + sample, unit / 4)[unit % 4];
      const std::vector<int64_t> places =
          Window(shape, i / out.count(2), i / out[3] % out[2], i % out[3], kernel, stride());
      float sum = 0;
      for (int64_t place : places) sum += std::max(x[place], 0.0f);
      const float threshold = UnitFloat(word) * sum;
      float running = 0;
      for (int64_t place : places) {
        running += std::max(x[place], 0.0f);
        if (running < threshold) continue;
        ASSERT_EQ(y[i], x[place]) << "output " << i;
        dx[place] += dy[i];
        break;
      }
    }
    runner.BackwardInput();
    ExpectNear(runner.InputGradient(), dx, 1e-6f, "gradient");
  }
}

TEST_P(StochasticPoolingTest, ATestYieldsTheMeanOfTheDraws) {
  const int64_t kernel = GetParam();
  const Shape shape = {2, 16, 18, 19};
  for (const TensorDesc& in : LayoutsOf(shape)) {
    PoolingDesc desc = Desc(kernel, stride());
    const bool by_desc = in.dense();  // in one layout it is the layer that says so, in the others the batch
    if (by_desc) desc.train = false;
    auto op = UnderTest().backend->Pooling(desc, {in});
    ASSERT_TRUE(op.ok()) << op.status();
    OpRunner runner(op->get(), {in});
    runner.batch().train = by_desc;
    const Values x = RandomValues(in.count(), 1, -0.5f, 1);
    runner.SetInput(0, x);
    runner.Forward();
    const Shape out = (*op)->outputs()[0].shape;
    Values want(out.count());
    for (int64_t i = 0; i < out.count(); ++i) {
      double sum = 0, squares = 0;
      for (int64_t place : Window(shape, i / out.count(2), i / out[3] % out[2], i % out[3], kernel, stride())) {
        const double weight = std::max(x[place], 0.0f);
        sum += weight, squares += weight * weight;
      }
      want[i] = static_cast<float>(sum == 0 ? 0 : squares / sum);
    }
    ExpectNear(runner.Output(), want, 1e-5f, "means");
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, StochasticPoolingTest, testing::Values(2, 3, 17));

/// 20,000 draws of one window: as often as the values say, whichever samples and outputs they are for.
TEST(StochasticPooling, DrawsByTheValues) {
  const TensorDesc in = {{200, 100, 2, 2}, 1};
  auto op = UnderTest().backend->Pooling(Desc(2, 2), {in});
  ASSERT_TRUE(op.ok()) << op.status();
  OpRunner runner(op->get(), {in});
  Values x;
  for (int i = 0; i < 20'000; ++i) x.insert(x.end(), {0.1f, 0, 0.6f, 0.3f});
  runner.SetInput(0, x);
  runner.Forward();
  std::map<float, int> counts;
  for (float y : runner.Output()) ++counts[y];
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts[0.1f], 2'000, 200);
  EXPECT_NEAR(counts[0.6f], 12'000, 350);
  EXPECT_NEAR(counts[0.3f], 6'000, 350);
}

TEST(StochasticPooling, TheSeedAndTheLayersNameDecide) {
  const auto draws = [](const std::string& name, uint64_t seed) {
    LayerUnderTest layer("name: \"" + name + R"(" type: "Pooling" bottom: "x" top: "y" pooling_param { pool: STOCHASTIC
                         kernel_size: 3 })");
    layer.context().seed = seed;
    const std::vector<TensorDesc> in = {{{1, 4, 6, 6}, 1}};
    OpRunner runner(layer.MakeOp(in), in);
    runner.SetInput(0, RandomValues(144, 1, 0, 1));
    runner.Forward();
    return runner.Output();
  };
  EXPECT_EQ(draws("pool", 1), draws("pool", 1));
  EXPECT_NE(draws("pool", 1), draws("pool", 2));
  EXPECT_NE(draws("pool", 1), draws("other", 1));
}

TEST(StochasticPooling, NeedsNoPadding) {
  const std::string text = R"(name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { kernel_size: 3 pool: )";
  EXPECT_EQ(CreateError(text + "STOCHASTIC pad: 1 }"),
            "layer \"p\": pooling_param { pool: STOCHASTIC } has pad 1 x 1; expected none, as in Caffe");
  EXPECT_EQ(CreateError(text + "AVE pad: 1 }"), "");
}

TEST(StochasticPooling, WindowsWithoutWeightAndNans) {
  const TensorDesc in = {{1, 3, 2, 2}, 1};
  auto op = UnderTest().backend->Pooling(Desc(2, 2), {in});
  ASSERT_TRUE(op.ok()) << op.status();
  OpRunner runner(op->get(), {in});
  runner.SetInput(0, {0, 0, 0, 0, -1, -2, -3, -4, 1, 2, 3, NAN});
  runner.SetOutputGradient(0, {1, 2, 3});
  runner.Forward();
  EXPECT_EQ(runner.Output()[0], 0);
  EXPECT_EQ(runner.Output()[1], -1);  // the first, as where all are 0
  EXPECT_TRUE(std::isnan(runner.Output()[2]));
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(), (Values{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}));
  runner.batch().train = false;
  runner.Forward();
  EXPECT_EQ(runner.Output()[0], 0);
  EXPECT_EQ(runner.Output()[1], 0);
  EXPECT_TRUE(std::isnan(runner.Output()[2]));
}

}  // namespace
}  // namespace hp::test

// Backend::Scatter and Backend::Sum, which stand where a layer's layout changes.
#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

std::unique_ptr<Op> Made(StatusOr<std::unique_ptr<Op>> op) {
  EXPECT_TRUE(op.ok()) << op.status();
  return *std::move(op);
}

/// Channels `range` of a dense [rows, channels, ...] tensor.
Values Cut(const Shape& shape, const Values& values, const Range& range) {
  Values cut;
  const int64_t row = shape.count(1), pixels = shape.count(2);
  for (int64_t r = 0; r < shape[0]; ++r) {
    const auto begin = values.begin() + r * row;
    cut.insert(cut.end(), begin + range.begin * pixels, begin + range.end * pixels);
  }
  return cut;
}

TEST(Scatter, CutsChannelsAndPutsGradientsBack) {
  for (const Shape& shape : {Shape{3, 10, 4, 3}, Shape{4, 10}, Shape{1, 10, 1, 1}}) {
    for (const std::vector<Range>& channels :
         {std::vector<Range>{{0, 3}, {3, 4}, {4, 10}}, {{0, 10}}, {{2, 5}}, {{0, 1}, {8, 10}}}) {
      SCOPED_TRACE(shape.ToString() + ", " + std::to_string(channels.size()) + " outputs");
      const TensorDesc desc{shape, 1};
      const auto op = Made(UnderTest().backend->Scatter(channels, {desc}));
      ASSERT_EQ(op->outputs().size(), channels.size());
      Values x = RandomValues(shape.count(), 3), dx(x.size(), 99.0f), expected(x.size(), 0.0f);
      std::vector<Values> y(channels.size()), dy;
      std::vector<Tensor> out, d_out;
      for (size_t i = 0; i < channels.size(); ++i) {
        EXPECT_EQ(op->outputs()[i].shape, shape.With(1, channels[i].size()));
        y[i].resize(op->outputs()[i].count());
        dy.push_back(RandomValues(y[i].size(), 20 + i));
      }
      for (size_t i = 0; i < channels.size(); ++i) {
        out.push_back({op->outputs()[i], y[i].data()});
        d_out.push_back({op->outputs()[i], dy[i].data()});
      }
      const std::vector<Tensor> in = {{desc, x.data()}}, d_in = {{desc, dx.data()}};
      OpArgs args;
      args.in = in, args.out = out, args.d_in = d_in, args.d_out = d_out;
      op->Forward(args);
      op->BackwardInput(args);
      EXPECT_TRUE(UnderTest().device->Synchronize().ok());
      for (size_t i = 0; i < channels.size(); ++i) {
        EXPECT_EQ(y[i], Cut(shape, x, channels[i])) << i;
        EXPECT_EQ(Cut(shape, dx, channels[i]), dy[i]) << i;
      }
      double total = 0, parts = 0;
      for (float value : dx) total += value;
      for (const Values& part : dy) {
        for (float value : part) parts += value;
      }
      EXPECT_NEAR(total, parts, 1e-4) << "channels of no output have gradient 0";

      d_out[0].data = nullptr;
      op->BackwardInput(args);
      EXPECT_TRUE(UnderTest().device->Synchronize().ok());
      EXPECT_EQ(Cut(shape, dx, channels[0]), Values(dy[0].size(), 0.0f)) << "nobody sends its gradient";
    }
  }
}

TEST(Sum, AddsInOrderAndThenTheBias) {
  constexpr int64_t kRows = 5, kColumns = 37;
  const TensorDesc desc{{kRows, kColumns}, 1};
  for (const bool biased : {false, true}) {
    const auto op = Made(UnderTest().backend->Sum(biased, {desc, desc, desc}));
    EXPECT_EQ(op->outputs()[0], desc);
    std::vector<Values> x;
    for (int i = 0; i < 3; ++i) x.push_back(RandomValues(desc.count(), 5 + i));
    std::vector<Tensor> in;
    for (Values& values : x) in.push_back({desc, values.data()});
    Values bias = RandomValues(kColumns, 9), y(desc.count()), dy = RandomValues(desc.count(), 10);
    Values d_bias(kColumns, 2.0f), expected(kColumns, 2.0f);
    Values scratch(op->scratch_bytes() / sizeof(float) + 1);
    const std::vector<Tensor> out = {{desc, y.data()}}, d_out = {{desc, dy.data()}};
    const std::vector<ParamView> params = {{.data = bias.data()}};
    const std::vector<float*> d_params = {d_bias.data()};
    OpArgs args;
    args.in = in, args.out = out, args.d_out = d_out, args.scratch = reinterpret_cast<std::byte*>(scratch.data()),
    args.accumulate = true;
    if (biased) args.params = params, args.d_params = d_params;
    op->Forward(args);
    op->BackwardParams(args);
    EXPECT_TRUE(UnderTest().device->Synchronize().ok());
    for (int64_t i = 0; i < desc.count(); ++i) {
      const float sum = (x[0][i] + x[1][i]) + x[2][i];
      EXPECT_EQ(y[i], biased ? sum + bias[i % kColumns] : sum) << i;
      if (biased) expected[i % kColumns] += dy[i];
    }
    for (int64_t c = 0; c < kColumns; ++c) EXPECT_NEAR(d_bias[c], expected[c], 1e-5);
  }
}

}  // namespace
}  // namespace hp::test

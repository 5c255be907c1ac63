// Slice, Crop, Tile and Reshape: what lies at each place, from indices alone.
#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

/// Elements of a dense tensor whose index along `axis` is in [begin, begin + size).
Values Cut(const Shape& shape, const Values& x, int axis, int64_t begin, int64_t size) {
  Values y;
  const int64_t inner = shape.count(axis + 1), period = shape.count(axis);
  for (int64_t o = 0; o < shape.count(0, axis); ++o) {
    const auto first = x.begin() + o * period + begin * inner;
    y.insert(y.end(), first, first + size * inner);
  }
  return y;
}

void CheckSlice(int axis, const std::vector<int64_t>& sizes, const TensorDesc& in) {
  SCOPED_TRACE("axis " + std::to_string(axis) + " " + Describe(in));
  std::string text = R"(name: "s" type: "Slice" bottom: "x" slice_param { axis: )" + std::to_string(axis);
  int64_t point = 0;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) text += " slice_point: " + std::to_string(point += sizes[i]);
  text += " }";
  for (size_t i = 0; i < sizes.size(); ++i) text += " top: \"y" + std::to_string(i) + "\"";
  LayerUnderTest layer(text);
  OpRunner runner(layer.MakeOp({in}), {in});
  const Values x = RandomValues(in.count(), 1), dx = RandomValues(in.count(), 2);
  runner.SetInput(0, x);
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); begin += sizes[i], ++i) {
    runner.SetOutputGradient(static_cast<int>(i), Cut(in.shape, dx, axis, begin, sizes[i]));
  }
  runner.Forward();
  begin = 0;
  for (size_t i = 0; i < sizes.size(); begin += sizes[i], ++i) {
    EXPECT_EQ(runner.Output(static_cast<int>(i)), Cut(in.shape, x, axis, begin, sizes[i])) << "top " << i;
  }
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(), dx);
  CheckGradients(&runner, {.samples = 5});
}

TEST(Slice, EveryAxisInEveryLayout) {
  for (const TensorDesc& in : LayoutsOf({2, 48, 5, 3})) {
    CheckSlice(1, {16, 32}, in);
    CheckSlice(1, {8, 8, 32}, in);
    CheckSlice(1, {1, 5, 42}, in);
    CheckSlice(1, {48}, in);
    CheckSlice(2, {1, 4}, in);
    CheckSlice(3, {2, 1}, in);
  }
  for (const TensorDesc& in : LayoutsOf({2, 16, 3, 2})) CheckSlice(1, {8, 8}, in);
  CheckSlice(1, {3, 7}, {{4, 10}, 1});
  CheckSlice(2, {1, 1, 4}, {{4, 3, 6}, 1});
}

TEST(Slice, KeepsTheInputsLayoutWhereItFits) {
  LayerUnderTest layer(R"(name: "s" type: "Slice" bottom: "x" top: "y" top: "z" slice_param { slice_point: 16 })");
  const Op* nhwc = layer.MakeOp({{{2, 36, 3, 3}, 36}});
  EXPECT_EQ(nhwc->outputs()[0].channel_block, 16);
  EXPECT_EQ(nhwc->outputs()[1].channel_block, 20);
  EXPECT_EQ(nhwc->scratch_bytes(), 0u);
  if (!UnderTest().blocked_layouts) return;
  const Op* blocked = layer.MakeOp({{{2, 48, 3, 3}, 16}});
  EXPECT_EQ(blocked->outputs()[1].channel_block, 16);
  EXPECT_EQ(blocked->scratch_bytes(), 0u);
  EXPECT_EQ(layer.MakeOp({{{2, 24, 3, 3}, 16}})->outputs()[0].channel_block, 1);
}

TEST(Slice, AGradientThatNobodyGivesCountsAsZero) {
  LayerUnderTest layer(R"(name: "s" type: "Slice" bottom: "x" top: "y" top: "z")");
  const std::vector<TensorDesc> in = {{{2, 4}, 1}};
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetOutputGradient(1, {1, 2, 3, 4});
  runner.Forward();
  runner.BackwardInput();  // loads the gradients
  std::vector<Tensor> d_out = runner.d_out();
  d_out[0].data = nullptr;
  runner.Call([&](OpArgs args) {
    args.d_out = d_out;
    runner.op()->BackwardInput(args);
  });
  EXPECT_EQ(runner.InputGradient(), (Values{0, 0, 1, 2, 0, 0, 3, 4}));
}

TEST(Crop, TakesTheSecondBottomsShapeAtAnOffset) {
  for (const TensorDesc& in : LayoutsOf({2, 16, 7, 6})) {
    for (const TensorDesc& like : LayoutsOf({2, 9, 4, 3})) {
      SCOPED_TRACE(Describe(in) + " like " + Describe(like));
      LayerUnderTest layer(R"(name: "c" type: "Crop" bottom: "x" bottom: "like" top: "y"
                              crop_param { axis: 1 offset: 5 offset: 2 offset: 3 })");
      OpRunner runner(layer.MakeOp({in, like}), {in, like});
      const Values x = RandomValues(in.count(), 1);
      runner.SetInput(0, x);
      runner.SetInput(1, Values(like.count(), NAN));
      runner.Forward();
      Values want = Cut({2, 16, 7, 6}, x, 1, 5, 9);
      want = Cut({2, 9, 7, 6}, want, 2, 2, 4);
      EXPECT_EQ(runner.Output(), Cut({2, 9, 4, 6}, want, 3, 3, 3));
      CheckGradients(&runner, {.samples = 300, .skip_inputs = {1}});
      EXPECT_EQ(runner.InputGradient(1), Values(like.count(), 0.0f));
    }
  }
}

TEST(Crop, OneOffsetIsForAllAxes) {
  LayerUnderTest layer(R"(name: "c" type: "Crop" bottom: "x" bottom: "like" top: "y" crop_param { offset: 1 })");
  const std::vector<TensorDesc> in = {{{1, 1, 3, 3}, 1}, {{5, 7, 2, 2}, 1}};
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetInput(0, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  runner.Forward();
  EXPECT_EQ(runner.Output(), (Values{4, 5, 7, 8}));
}

TEST(Crop, OfNothingIsACopy) {
  LayerUnderTest layer(R"(name: "c" type: "Crop" bottom: "x" bottom: "like" top: "y")");
  const std::vector<TensorDesc> in = {{{2, 3, 2, 2}, 1}, {{2, 3, 2, 2}, 1}};
  OpRunner runner(layer.MakeOp(in), in);
  runner.SetInput(0, RandomValues(24, 3));
  runner.Forward();
  EXPECT_EQ(runner.Output(), runner.input(0));
}

TEST(Tile, RepeatsAnAxis) {
  for (const int axis : {1, 2, 3}) {
    for (const TensorDesc& in : LayoutsOf({2, 8, 3, 2})) {
      SCOPED_TRACE("axis " + std::to_string(axis) + " " + Describe(in));
      LayerUnderTest layer(R"(name: "t" type: "Tile" bottom: "x" top: "y" tile_param { tiles: 3 axis: )" +
                           std::to_string(axis) + " }");
      OpRunner runner(layer.MakeOp({in}), {in});
      const Values x = RandomValues(in.count(), 1);
      runner.SetInput(0, x);
      runner.Forward();
      const Values y = runner.Output();
      const int64_t size = in.shape[axis];
      const Shape whole = in.shape.With(axis, 3 * size);
      for (int64_t tile = 0; tile < 3; ++tile) EXPECT_EQ(Cut(whole, y, axis, tile * size, size), x) << tile;
      CheckGradients(&runner);
    }
  }
}

TEST(Reshape, KeepsTheOrderOfAnyLayout) {
  for (const TensorDesc& in : LayoutsOf({2, 16, 3, 2})) {
    SCOPED_TRACE(Describe(in));
    LayerUnderTest layer(
        R"(name: "r" type: "Reshape" bottom: "x" top: "y" reshape_param { shape { dim: 0 dim: 4 dim: -1 } })");
    EXPECT_TRUE(layer->is_view());
    OpRunner runner(layer.MakeOp({in}), {in});
    runner.SetInput(0, RandomValues(in.count(), 1));
    runner.SetOutputGradient(0, RandomValues(in.count(), 2));
    runner.Forward();
    EXPECT_EQ(runner.Output(), runner.input(0));
    runner.BackwardInput();
    EXPECT_EQ(runner.InputGradient(), RandomValues(in.count(), 2));
  }
}

}  // namespace
}  // namespace hp::test

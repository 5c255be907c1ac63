#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

const char* const kSplit = R"(name: "s" type: "Split" bottom: "x" top: "a" top: "b" top: "c")";

TEST(Split, ForwardAndGradientInEveryLayout) {
  for (const TensorDesc& desc : LayoutsOf({2, 16, 3, 2})) {
    SCOPED_TRACE(Describe(desc));
    LayerUnderTest layer(kSplit);
    Op* op = layer.MakeOp({desc});
    EXPECT_EQ(op->outputs(), std::vector<TensorDesc>(3, desc));
    OpRunner runner(op, {desc});
    const Values x = RandomValues(desc.count(), 3);
    runner.SetInput(0, x);
    runner.Forward();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(runner.Output(i), x);
    CheckGradients(&runner);
  }
}

TEST(Split, OutputsMayBeTheInputsMemory) {
  LayerUnderTest layer(kSplit);
  const TensorDesc desc = {{2, 3}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  for (Tensor& out : runner.out()) out.data = runner.in()[0].data;
  runner.SetInput(0, {1, 2, 3, 4, 5, 6});
  runner.Forward();
  EXPECT_EQ(runner.Output(2), (Values{1, 2, 3, 4, 5, 6}));
}

/// In float (1e8 + 1) - 1e8 is 0, any other order of these is not.
TEST(Split, GradientsAreAddedInTheOrderOfTheTops) {
  LayerUnderTest layer(kSplit);
  const TensorDesc desc = {{1, 2}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.SetOutputGradient(0, {1e8f, 1e8f});
  runner.SetOutputGradient(1, {1, -1e8f});
  runner.SetOutputGradient(2, {-1e8f, 1});
  runner.Forward();
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(), (Values{0, 1}));
}

TEST(Split, ReadersWithoutAGradientAddNothing) {
  LayerUnderTest layer(kSplit);
  const TensorDesc desc = {{1, 2}, 1};
  Values first = {1, 2}, last = {10, 20}, dx(2);
  const std::vector<Tensor> in = {{desc, nullptr}}, d_in = {{desc, dx.data()}};
  std::vector<Tensor> d_out = {{desc, nullptr}, {desc, first.data()}, {desc, last.data()}};
  OpArgs args;
  args.in = in, args.d_in = d_in, args.d_out = d_out;
  Op* op = layer.MakeOp({desc});
  op->BackwardInput(args);
  EXPECT_TRUE(UnderTest().device->Synchronize().ok());
  EXPECT_EQ(dx, (Values{11, 22}));
  for (Tensor& tensor : d_out) tensor.data = nullptr;
  op->BackwardInput(args);
  EXPECT_TRUE(UnderTest().device->Synchronize().ok());
  EXPECT_EQ(dx, (Values{0, 0}));
}

}  // namespace
}  // namespace hp::test

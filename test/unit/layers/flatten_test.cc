#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

/// Elements keep their NCHW order, whatever the input's layout.
TEST(Flatten, ForwardAndBackwardInEveryLayout) {
  for (const Shape& shape : {Shape{2, 16, 3, 2}, Shape{3, 5, 2, 2}, Shape{3, 32, 1, 1}, Shape{2, 6}}) {
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      SCOPED_TRACE(Describe(desc));
      LayerUnderTest layer(R"(name: "f" type: "Flatten" bottom: "x" top: "y")");
      Op* op = layer.MakeOp({desc});
      EXPECT_TRUE(op->outputs()[0].dense());
      OpRunner runner(op, {desc});
      const Values x = RandomValues(shape.count(), 3), dy = RandomValues(shape.count(), 4);
      runner.SetInput(0, x);
      runner.SetOutputGradient(0, dy);
      runner.Forward();
      EXPECT_EQ(runner.Output(), x);
      runner.BackwardInput();
      EXPECT_EQ(runner.InputGradient(), dy);
      CheckGradients(&runner, {.samples = 10});
    }
  }
}

}  // namespace
}  // namespace hp::test

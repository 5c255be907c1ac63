#include "test/unit/layers/layer_test_util.h"

#include <cmath>

namespace hp::test {
namespace {

/// exp(x) / sum of exp(x) along `axis` of a dense tensor, in double.
Values Reference(const Values& x, const Shape& shape, int axis) {
  const int64_t inner = shape.count(axis + 1), classes = shape[axis];
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    const int64_t first = index / (classes * inner) * (classes * inner) + index % inner;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(x[first + c * inner]) - x[i]);
    y[i] = static_cast<float>(1 / sum);
  }
  return y;
}

std::string SoftmaxText(int axis) {
  return R"(name: "s" type: "Softmax" bottom: "x" top: "y" softmax_param { axis: )" + std::to_string(axis) + " }";
}

TEST(Softmax, ForwardAndGradientAlongEveryAxisInEveryLayout) {
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 16, 3, 2}, Shape{2, 16, 9, 9}}) {
    for (int axis = 1; axis < shape.rank(); ++axis) {
      for (const TensorDesc& desc : LayoutsOf(shape)) {
        SCOPED_TRACE(Describe(desc) + " axis " + std::to_string(axis));
        LayerUnderTest layer(SoftmaxText(axis - (axis == 2 ? shape.rank() : 0)));  // one of them counted from the end
        OpRunner runner(layer.MakeOp({desc}), {desc});
        const Values x = RandomValues(shape.count(), 3, -2, 2);
        runner.SetInput(0, x);
        runner.Forward();
        ExpectNear(runner.Output(), Reference(x, shape, axis), 1e-6f, "forward");
        CheckGradients(&runner, {.samples = 20});
      }
    }
  }
}

TEST(Softmax, WorksInPlaceInEveryLayoutOfItsSize) {
  for (int axis : {1, 2}) {
    for (const TensorDesc& desc : LayoutsOf(Shape{2, 16, 9, 9})) {
      SCOPED_TRACE(Describe(desc) + " axis " + std::to_string(axis));
      LayerUnderTest layer(SoftmaxText(axis)), apart_layer(SoftmaxText(axis));
      EXPECT_TRUE(layer->allows_in_place());
      Op* const op = layer.MakeOp({desc});
      if (op->outputs()[0].bytes() != desc.bytes()) continue;  // then a net gives its output memory of its own
      OpRunner runner(op, {desc}, {}, true), apart(apart_layer.MakeOp({desc}), {desc});
      const Values x = RandomValues(desc.shape.count(), 3, -2, 2), dy = RandomValues(desc.shape.count(), 5, -1, 1);
      runner.SetInput(0, x);
      apart.SetInput(0, x);
      runner.Forward();
      apart.Forward();
      EXPECT_EQ(runner.Output(), apart.Output());
      runner.SetOutputGradient(0, dy);
      apart.SetOutputGradient(0, dy);
      runner.BackwardInput();
      apart.BackwardInput();
      EXPECT_EQ(runner.InputGradient(), apart.InputGradient());
    }
  }
}

TEST(Softmax, LargeInputsDoNotOverflow) {
  LayerUnderTest layer(SoftmaxText(1));
  const TensorDesc desc = {{2, 3}, 1};
  OpRunner runner(layer.MakeOp({desc}), {desc});
  runner.SetInput(0, {1000, 999, -1000, -1000, -1000, -1000});
  runner.Forward();
  const float e = static_cast<float>(1 / (1 + std::exp(1.0)));
  ExpectNear(runner.Output(), {1 - e, e, 0, 1.0f / 3, 1.0f / 3, 1.0f / 3}, 1e-6f, "forward");
}

TEST(Softmax, NaNTakesItsRowAlone) {
  LayerUnderTest layer(SoftmaxText(1));
  const TensorDesc desc = {{2, 3}, 1};
  for (int where : {0, 1, 2}) {
    OpRunner runner(layer.MakeOp({desc}), {desc});
    Values x(6, 0.5f);
    x[where] = std::nanf("");
    runner.SetInput(0, x);
    runner.Forward();
    const Values y = runner.Output();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i])) << where;
    for (int i = 3; i < 6; ++i) EXPECT_FLOAT_EQ(y[i], 1.0f / 3);
  }
}

}  // namespace
}  // namespace hp::test

#include "test/unit/layers/layer_test_util.h"

namespace hp::test {
namespace {

std::unique_ptr<Op> MakeExportOp(int parts, const TensorDesc& desc) {
  auto op = UnderTest().backend->Export(parts, {desc});
  EXPECT_TRUE(op.ok()) << op.status();
  return *std::move(op);
}

/// Dense order goes out to the wire; dense gradients of all readers come back and are added in the net's layout.
TEST(Export, ForwardAndBackwardInEveryLayout) {
  for (const Shape& shape : {Shape{2, 16, 3, 2}, Shape{2, 48, 9, 9}, Shape{3, 5, 2, 2}, Shape{2, 7}}) {
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      for (int parts : {1, 3}) {
        SCOPED_TRACE(Describe(desc) + " parts " + std::to_string(parts));
        const auto op = MakeExportOp(parts, desc);
        const Shape out_shape = op->outputs()[0].shape;
        EXPECT_EQ(out_shape, shape);
        EXPECT_TRUE(op->outputs()[0].dense());
        const TensorDesc dense = {shape, 1};
        const Values x = RandomValues(shape.count(), 3);
        Values x_memory(x.size()), wire(x.size()), dx_memory(x.size()), expected(x.size(), 0.0f);
        const std::vector<Tensor> in = {{desc, x_memory.data()}}, out = {{dense, wire.data()}};
        const std::vector<Tensor> d_in = {{desc, dx_memory.data()}};
        WriteTensor(in[0], x);
        std::vector<Values> gradients;
        for (int i = 0; i < parts; ++i) gradients.push_back(RandomValues(shape.count(), 10 + i));
        std::vector<Tensor> d_out;
        for (Values& gradient : gradients) {
          d_out.push_back({dense, gradient.data()});
          for (size_t i = 0; i < expected.size(); ++i) expected[i] += gradient[i];
        }
        OpArgs args;
        args.in = in, args.out = out, args.d_in = d_in, args.d_out = d_out;
        op->Forward(args);
        EXPECT_TRUE(UnderTest().device->Synchronize().ok());
        EXPECT_EQ(wire, x);
        op->BackwardInput(args);
        EXPECT_TRUE(UnderTest().device->Synchronize().ok());
        EXPECT_EQ(ReadTensor(d_in[0]), expected);
      }
    }
  }
}

TEST(Export, GradientsAreAddedInTheOrderOfTheReaders) {
  const TensorDesc desc = {{1, 16, 2, 1}, 16};
  const auto op = MakeExportOp(3, desc);
  Values first(32, 1e8f), second(32, 1.0f), third(32, -1e8f), dx(32);
  const TensorDesc dense = {desc.shape, 1};
  const std::vector<Tensor> d_out = {{dense, first.data()}, {dense, second.data()}, {dense, third.data()}};
  const std::vector<Tensor> d_in = {{desc, dx.data()}};
  OpArgs args;
  args.d_in = d_in, args.d_out = d_out;
  op->BackwardInput(args);
  EXPECT_TRUE(UnderTest().device->Synchronize().ok());
  EXPECT_EQ(dx, Values(32, 0.0f));  // (1e8 + 1) - 1e8 in float
}

}  // namespace
}  // namespace hp::test

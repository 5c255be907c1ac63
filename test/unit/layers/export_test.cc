#include "test/support/elements.h"
#include "test/unit/layers/layer_test_util.h"

#include <bit>
#include <cmath>
#include <limits>

namespace hp::test {
namespace {

std::unique_ptr<Op> MakeExportOp(int parts, const TensorDesc& desc) {
  auto op = UnderTest().backend->Export(parts, ElementType::kFloat32, {desc});
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

/// The nearest bfloat16 of each number.
Values AsBFloat16(Values values) {
  for (float& value : values) value = Rounded(ElementType::kBFloat16, value);
  return values;
}

ReachableVector<uint16_t> Narrowed(const Values& values) {
  ReachableVector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    SetElement(ElementType::kBFloat16, values[i], bits.data(), static_cast<int64_t>(i));
  }
  return bits;
}

/// Gradients are added in float32; what they were rounded to is all that is lost.
TEST(Export, Bfloat16InEveryLayout) {
  for (const Shape& shape : {Shape{2, 16, 3, 2}, Shape{3, 5, 2, 2}, Shape{2, 7}}) {
    for (const TensorDesc& desc : LayoutsOf(shape)) {
      for (int parts : {1, 3}) {
        SCOPED_TRACE(Describe(desc) + " parts " + std::to_string(parts));
        auto op = UnderTest().backend->Export(parts, ElementType::kBFloat16, {desc});
        ASSERT_TRUE(op.ok()) << op.status();
        const TensorDesc wire_desc = {shape, 1, ElementType::kBFloat16};
        EXPECT_EQ((*op)->outputs()[0], wire_desc);
        const Values x = RandomValues(shape.count(), 3);
        Values x_memory(x.size()), dx_memory(x.size()), expected(x.size(), 0.0f);
        ReachableVector<uint16_t> wire(x.size());
        ReachableVector<std::byte> scratch((*op)->scratch_bytes() + 64);
        const std::vector<Tensor> in = {{desc, x_memory.data()}}, out = {{wire_desc, wire.data()}};
        const std::vector<Tensor> d_in = {{desc, dx_memory.data()}};
        WriteTensor(in[0], x);
        std::vector<ReachableVector<uint16_t>> gradients;
        std::vector<Tensor> d_out;
        for (int i = 0; i < parts; ++i) {
          const Values gradient = AsBFloat16(RandomValues(shape.count(), 10 + i));
          for (size_t k = 0; k < expected.size(); ++k) expected[k] += gradient[k];
          gradients.push_back(Narrowed(gradient));
        }
        for (ReachableVector<uint16_t>& gradient : gradients) d_out.push_back({wire_desc, gradient.data()});
        OpArgs args;
        args.in = in, args.out = out, args.d_in = d_in, args.d_out = d_out, args.scratch = scratch.data();
        (*op)->Forward(args);
        EXPECT_TRUE(UnderTest().device->Synchronize().ok());
        EXPECT_EQ(wire, Narrowed(x));
        (*op)->BackwardInput(args);
        EXPECT_TRUE(UnderTest().device->Synchronize().ok());
        EXPECT_EQ(ReadTensor(d_in[0]), expected);
      }
    }
  }
}

TEST(Import, WidensWhatLandsAndRoundsItsGradient) {
  const TensorDesc wire_desc = {{3, 5, 7, 1}, 1, ElementType::kBFloat16}, desc = {wire_desc.shape, 1};
  auto op = UnderTest().backend->Import({wire_desc});
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ((*op)->outputs()[0], desc);
  const Values x = AsBFloat16(RandomValues(desc.count(), 3)), dy = RandomValues(desc.count(), 4);
  ReachableVector<uint16_t> wire = Narrowed(x), d_wire(wire.size());
  Values y(x.size()), dy_memory = dy;
  const std::vector<Tensor> in = {{wire_desc, wire.data()}}, out = {{desc, y.data()}};
  const std::vector<Tensor> d_in = {{wire_desc, d_wire.data()}}, d_out = {{desc, dy_memory.data()}};
  OpArgs args;
  args.in = in, args.out = out, args.d_in = d_in, args.d_out = d_out;
  (*op)->Forward(args);
  (*op)->BackwardInput(args);
  EXPECT_TRUE(UnderTest().device->Synchronize().ok());
  EXPECT_EQ(y, x);
  EXPECT_EQ(d_wire, Narrowed(dy));
}

TEST(Round, RoundsInEveryLayoutAndHandsTheGradientOn) {
  for (const TensorDesc& desc : LayoutsOf({2, 16, 3, 2})) {
    SCOPED_TRACE(Describe(desc));
    auto op = UnderTest().backend->Round(ElementType::kBFloat16, {desc});
    ASSERT_TRUE(op.ok()) << op.status();
    EXPECT_EQ((*op)->outputs()[0], desc);
    const Values x = RandomValues(desc.count(), 3), dy = RandomValues(desc.count(), 4);
    Values x_memory(x.size()), y_memory(x.size()), dy_memory(x.size()), dx_memory(x.size());
    ReachableVector<std::byte> scratch((*op)->scratch_bytes() + 64);
    const std::vector<Tensor> in = {{desc, x_memory.data()}}, out = {{desc, y_memory.data()}};
    const std::vector<Tensor> d_in = {{desc, dx_memory.data()}}, d_out = {{desc, dy_memory.data()}};
    WriteTensor(in[0], x);
    WriteTensor(d_out[0], dy);
    OpArgs args;
    args.in = in, args.out = out, args.d_in = d_in, args.d_out = d_out, args.scratch = scratch.data();
    (*op)->Forward(args);
    (*op)->BackwardInput(args);
    EXPECT_TRUE(UnderTest().device->Synchronize().ok());
    EXPECT_EQ(ReadTensor(out[0]), AsBFloat16(x));
    EXPECT_EQ(ReadTensor(d_in[0]), dy);
  }
}

TEST(Export, WhatIsNoNumberOrInfiniteStaysSo) {
  const TensorDesc desc = {{1, 4}, 1}, wire_desc = {desc.shape, 1, ElementType::kBFloat16};
  auto op = UnderTest().backend->Export(1, ElementType::kBFloat16, {desc});
  ASSERT_TRUE(op.ok()) << op.status();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // A signalling NaN whose upper half alone would be an infinity, and the largest number, which rounds to one.
  Values x = {std::bit_cast<float>(0x7f800001u), -kInfinity, 3.4028235e38f, -0.0f};
  ReachableVector<uint16_t> wire(4);
  ReachableVector<std::byte> scratch((*op)->scratch_bytes() + 64);
  const std::vector<Tensor> in = {{desc, x.data()}}, out = {{wire_desc, wire.data()}};
  OpArgs args;
  args.in = in, args.out = out, args.scratch = scratch.data();
  (*op)->Forward(args);
  EXPECT_TRUE(UnderTest().device->Synchronize().ok());
  EXPECT_TRUE(std::isnan(GetElement(ElementType::kBFloat16, wire.data(), 0)));
  EXPECT_EQ(wire[1], 0xff80);
  EXPECT_EQ(wire[2], 0x7f80);
  EXPECT_EQ(wire[3], 0x8000);
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

#include "backend/cuda/reorder.h"

#include "backend/cuda/ops.h"
#include "backend/cuda/pad_channels.h"
#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_test_util.h"
#include "test/unit/cuda/gpu_under_test.h"

namespace hp::test {
namespace {

GpuStream Stream() { return GpuUnderTest().stream(Device::kCompute); }

void Synchronize() { ASSERT_TRUE(GpuUnderTest().Synchronize().ok()); }

/// Full and broken squares of 32, few channels, few pixels, weights of a convolution.
const Shape kShapes[] = {{2, 16, 3, 3}, {1, 32, 8, 8}, {3, 5, 2, 2}, {2, 33, 7, 9}, {2, 3, 40, 5},   {5, 96, 11, 1},
                         {2, 32, 1, 1}, {2, 24, 70},   {3, 7},       {1, 9, 8, 8},  {2, 64, 32, 32}, {4, 1, 5, 5}};

constexpr auto kFloat32 = ElementType::kFloat32;
constexpr ElementType kSixteenBits[] = {ElementType::kBFloat16, ElementType::kFloat16};

/// Of a net there are float32 and one type of 16 bits.
std::vector<std::pair<ElementType, ElementType>> ElementPairs() {
  std::vector<std::pair<ElementType, ElementType>> pairs = {{kFloat32, kFloat32}};
  for (const ElementType element : kSixteenBits) {
    pairs.insert(pairs.end(), {{kFloat32, element}, {element, kFloat32}, {element, element}});
  }
  return pairs;
}

void CopyBothWays(const TensorDesc& from, const TensorDesc& to) {
  Values x = RandomValues(from.count(), 3), want = x;
  for (size_t i = 0; i < x.size(); ++i) want[i] = Rounded(to.element, Rounded(from.element, x[i]));
  Values source(x.size() + 1), target(x.size() + 1, 77);
  // One float off: copies must do without aligned memory.
  for (const int shift : {0, 1}) {
    const Tensor in = {from, source.data() + shift}, out = {to, target.data() + shift};
    WriteTensor(in, x);
    cuda::CopyLayout(Stream(), from, in.data, to, out.data);
    if (UnderTest().waits) {
      EXPECT_EQ(target[shift], 77);
    }
    Synchronize();
    EXPECT_EQ(ReadTensor(out), want);
    std::fill(target.begin(), target.end(), 77.0f);
  }
}

TEST(CopyLayout, BetweenAnyTwoLayoutsAndTypes) {
  for (const Shape& shape : kShapes) {
    for (TensorDesc from : LayoutsOf(shape)) {
      for (TensorDesc to : LayoutsOf(shape)) {
        for (const auto& [from_element, to_element] : ElementPairs()) {
          SCOPED_TRACE(testing::Message()
                       << "[" << shape << "] from " << from.channel_block << " to " << to.channel_block << ", type "
                       << static_cast<int>(from_element) << " to " << static_cast<int>(to_element));
          from.element = from_element, to.element = to_element;
          CopyBothWays(from, to);
        }
      }
    }
  }
}

/// All values of 16 bits become float32 and come back; float32 goes to the nearest of them, ties to even, beyond the
/// largest to infinity.
TEST(CopyLayout, RoundsAsIeee754Says) {
  for (const ElementType element : kSixteenBits) {
    const int64_t count = 1 << 16;
    ReachableVector<uint16_t> bits(count), back(count);
    for (int64_t i = 0; i < count; ++i) bits[i] = static_cast<uint16_t>(i);
    Values values(count), rounded(3 * count);
    cuda::CopyLayout(Stream(), {Shape{count}, 1, element}, bits.data(), {Shape{count}, 1}, values.data());
    cuda::CopyLayout(Stream(), {Shape{count}, 1}, values.data(), {Shape{count}, 1, element}, back.data());
    Synchronize();
    for (int64_t i = 0; i < count; ++i) {
      const float want = GetElement(element, bits.data(), i);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(values[i]) && std::isnan(GetElement(element, back.data(), i))) << i;
      } else {
        ASSERT_EQ(values[i], want) << i;
        ASSERT_EQ(back[i], bits[i]) << i;
      }
      // A tie between this one and the next, and what lies just beside it.
      const float next = GetElement(element, bits.data(), std::min(i + 1, count - 1));
      const float tie = want + (next - want) / 2;
      rounded[3 * i] = tie;
      rounded[3 * i + 1] = std::nextafter(tie, want), rounded[3 * i + 2] = std::nextafter(tie, next);
    }
    ReachableVector<uint16_t> got(rounded.size());
    const Shape shape = {static_cast<int64_t>(rounded.size())};
    cuda::CopyLayout(Stream(), {shape, 1}, rounded.data(), {shape, 1, element}, got.data());
    Synchronize();
    for (size_t i = 0; i < rounded.size(); ++i) {
      if (std::isnan(rounded[i])) continue;
      ASSERT_EQ(GetElement(element, got.data(), i), Rounded(element, rounded[i])) << rounded[i];
    }
  }
}

TEST(CopyLayout, BetweenDenseTensorsOfOtherShapes) {
  const Values x = RandomValues(24, 1);
  Values y(24);
  cuda::CopyLayout(Stream(), {{2, 3, 4}, 1}, x.data(), {{6, 4}, 1}, y.data());
  Synchronize();
  EXPECT_EQ(y, x);
}

/// More sources than one kernel takes, for which float addition depends on the order.
TEST(SumFromDense, AddsAnyNumberOfSourcesInOrder) {
  for (const Shape& shape : {Shape{2, 16, 9, 5}, Shape{2, 3, 5, 5}, Shape{3, 11}}) {
    for (const TensorDesc& to : LayoutsOf(shape)) {
      for (const int count : {0, 1, 2, 16, 17, 40}) {
        SCOPED_TRACE(std::to_string(count) + " sources in blocks of " + std::to_string(to.channel_block));
        std::vector<Values> sources;
        std::vector<const void*> pointers;
        Values want(shape.count()), memory(shape.count(), std::nanf(""));
        for (int k = 0; k < count; ++k) {
          sources.push_back(RandomValues(shape.count(), 10 + k, -1e4f, 1e4f));
          for (size_t i = 0; i < want.size(); ++i) want[i] = k == 0 ? sources[k][i] : want[i] + sources[k][i];
        }
        for (const Values& source : sources) pointers.push_back(source.data());
        cuda::SumFromDense(Stream(), pointers, to, memory.data());
        Synchronize();
        EXPECT_EQ(ReadTensor({to, memory.data()}), want);
      }
    }
  }
}

/// Zeros behind a pixel's channels, and back without them.
TEST(PadChannels, FillsPixelsWithZeros) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{3, 7, 2, 9}, Shape{4, 5, 1, 1}, Shape{1, 1, 6, 6}}) {
    for (TensorDesc desc : LayoutsOf(shape)) {
      for (const ElementType padded_element : kSixteenBits) {
        for (const ElementType element : {kFloat32, padded_element}) {
          SCOPED_TRACE(testing::Message() << "[" << shape << "] in blocks of " << desc.channel_block << ", type "
                                          << static_cast<int>(element) << " to " << static_cast<int>(padded_element));
          desc.element = element;
          const TensorDesc padded_desc = {shape.With(1, 8), 8, padded_element};
          const int64_t pixels = shape.count(2);
          Values x = RandomValues(shape.count(), 1);
          for (float& value : x) value = Rounded(padded_element, value);
          Values from(x.size()), padded(padded_desc.count(), std::nanf("")), back(x.size(), std::nanf(""));
          WriteTensor({desc, from.data()}, x);
          cuda::PadChannels(Stream(), desc, from.data(), padded_desc, padded.data());
          cuda::DropPadding(Stream(), padded_desc, padded.data(), desc, back.data());
          Synchronize();
          const Values got = ReadTensor({padded_desc, padded.data()});
          for (int64_t i = 0; i < padded_desc.count(); ++i) {
            const int64_t image = i / (8 * pixels), channel = i / pixels % 8;
            const int64_t at = (image * shape[1] + channel) * pixels + i % pixels;
            ASSERT_EQ(got[i], channel < shape[1] ? x[at] : 0) << i;
          }
          EXPECT_EQ(ReadTensor({desc, back.data()}), x);
        }
      }
    }
  }
}

/// An inception's four branches, of several widths.
TEST(Concat, IsOneKernelEachWay) {
  auto* const gpu = dynamic_cast<FakeGpu*>(UnderTest().device.get());
  if (gpu == nullptr) GTEST_SKIP() << "counts the launches of a fake";
  std::vector<TensorDesc> in;
  for (const int64_t channels : {64, 128, 32, 20}) in.push_back({{2, channels, 5, 5}, static_cast<int>(channels)});
  const std::unique_ptr<Op> concat = UnderTest().backend->Concat(1, in).value();
  OpRunner runner(concat.get(), in, {});
  for (size_t i = 0; i < in.size(); ++i) {
    runner.SetInput(static_cast<int>(i), RandomValues(in[i].count(), static_cast<uint32_t>(i)));
  }
  const auto launches = [gpu](const auto& call) {
    const int before = gpu->launches();
    call();
    return gpu->launches() - before;
  };
  EXPECT_EQ(launches([&] { runner.Forward(); }), 1);
  EXPECT_EQ(launches([&] { runner.BackwardInput(); }), 1);
}

}  // namespace
}  // namespace hp::test

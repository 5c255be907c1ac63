#include "backend/cuda/channel_groups.h"

#include "backend/cuda/cuda_backend.h"
#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_cases.h"
#include "test/unit/cuda/gpu_under_test.h"

namespace hp::test {
namespace {

constexpr GpuMath kMaths[] = {GpuMath::kTf32, GpuMath::kBFloat16};

GpuStream Stream() { return GpuUnderTest().stream(Device::kCompute); }

// --- Copies

TEST(ChannelGroups, CopiesComeFromAndGoToEitherLayout) {
  for (const ElementType element : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    for (const ElementType other : {ElementType::kFloat32, element}) {
      for (const auto& [shape, groups] :
           {std::pair(Shape{2, 32, 3, 5}, 2), {{3, 48, 1, 1}, 3}, {{1, 16, 7, 2}, 1}, {{2, 64, 2, 2}, 4}}) {
        for (const int64_t block : {int64_t{1}, shape[1]}) {
          SCOPED_TRACE(testing::Message() << "[" << shape << "], " << groups << " groups, block " << block << ", types "
                                          << static_cast<int>(element) << " and " << static_cast<int>(other));
          const TensorDesc desc = {shape, block, other};
          const int64_t pixels = shape[0] * shape.count(2), channels = shape[1] / groups;
          const Values x = RandomValues(desc.count(), 1);
          Values source(x.size()), in_groups(x.size()), back(x.size());
          WriteTensor({desc, source.data()}, x);
          cuda::CopyToGroups(Stream(), desc, source.data(), element, groups, in_groups.data());
          cuda::CopyFromGroups(Stream(), element, groups, in_groups.data(), desc, back.data());
          ASSERT_TRUE(GpuUnderTest().Synchronize().ok());
          Values want(x.size());
          for (size_t i = 0; i < x.size(); ++i) want[i] = Rounded(element, Rounded(other, x[i]));
          EXPECT_EQ(ReadTensor({desc, back.data()}), want);
          for (int64_t i = 0; i < desc.count(); ++i) {
            const int64_t image = i / shape.count(1), c = i / shape.count(2) % shape[1], place = i % shape.count(2);
            const int64_t pixel = image * shape.count(2) + place;
            const int64_t at = (c / channels * pixels + pixel) * channels + c % channels;
            ASSERT_EQ(GetElement(element, in_groups.data(), at), want[i]) << i;
          }
        }
      }
    }
  }
}

// --- Ops that read and write groups

/// Of a size that cuDNN 9 computes group by group on an H200 and an A100 (cuda_cudnn_plan).
const TensorDesc kIn = {{2, 64, 16, 16}, 64};

OpCase GroupedConvolution(bool relu) {
  ConvolutionDesc desc;
  desc.num_output = 64, desc.group = 2, desc.kernel_h = desc.kernel_w = 3, desc.pad_h = desc.pad_w = 1;
  return {.name = relu ? "convolution and ReLU" : "convolution",
          .make =
              [=](Backend& backend, const Backend::Descs& in) {
                auto op = backend.Convolution(desc, in);
                // A real GPU's library may have none that hands NaNs on.
                if (relu && op.value()->TakeReluBehind()) {
                  EXPECT_TRUE(op.value()->TakeReluGradientBehind());
                }
                return op;
              },
          .in = {kIn},
          .params = {{64, 32, 3, 3}, {64}}};
}

OpCase Pooling(PoolingDesc::Method method) {
  PoolingDesc desc;
  desc.method = method, desc.kernel_h = desc.kernel_w = 3, desc.stride_h = desc.stride_w = 2, desc.pad_h = 1;
  return {.name = method == PoolingDesc::kMax ? "maxima" : "averages",
          .make = [=](Backend& backend, const Backend::Descs& in) { return backend.Pooling(desc, in); },
          .in = {kIn}};
}

OpCase Lrn(int64_t size) {
  LrnDesc desc;
  desc.local_size = size, desc.alpha = 0.5f;
  return {.name = "LRN",
          .make = [=](Backend& backend, const Backend::Descs& in) { return backend.Lrn(desc, in); },
          .in = {kIn}};
}

std::vector<OpCase> Cases() {
  return {GroupedConvolution(false),
          GroupedConvolution(true),
          Pooling(PoolingDesc::kMax),
          Pooling(PoolingDesc::kAve),
          Lrn(3),
          Lrn(5)};
}

/// What the op computes, and how many kernels each call takes.
struct Computed {
  std::vector<Values> results;
  int forward = 0, backward_input = 0, backward_params = 0;
};

Computed Compute(const OpCase& c, GpuMath math, int64_t in_groups, int64_t out_groups) {
  const BackendUnderTest gpu = NewGpuUnderTest(math);
  Backend::Descs in = c.in;
  in[0].element = ElementOf(math);
  OpBench bench(gpu.device.get(), gpu.backend.get(), c, in, ElementOf(math));
  EXPECT_TRUE(bench.LieInGroups(in_groups, out_groups));
  bench.Load(1);
  bench.Call();  // makes copies of parameters
  bench.Load(2);
  const auto* const fake = dynamic_cast<const FakeGpu*>(gpu.device.get());
  const auto launches = [&](const auto& call) {
    const int before = fake == nullptr ? 0 : fake->launches();
    call();
    return fake == nullptr ? 0 : fake->launches() - before;
  };
  Computed computed;
  computed.forward = launches([&] { bench.Forward(); });
  computed.backward_input = launches([&] { bench.BackwardInput(); });
  computed.backward_params = launches([&] { bench.BackwardParams(false); });
  computed.results = bench.Results();
  return computed;
}

/// Wherever the channels lie, each number is computed alike, but for the order of a bias gradient's sums.
TEST(ChannelGroups, ChangeNothingThatIsComputed) {
  for (const GpuMath math : kMaths) {
    const BackendUnderTest gpu = NewGpuUnderTest(math);
    const Backend::Descs in = {{kIn.shape, kIn.channel_block, ElementOf(math)}};
    const int64_t groups = GroupedConvolution(false).make(*gpu.backend, in).value()->groups();
    EXPECT_TRUE(groups == 2 || dynamic_cast<const FakeGpu*>(gpu.device.get()) == nullptr);
    for (const OpCase& c : Cases()) {
      if (!c.params.empty() && groups == 1) continue;  // another GPU, or another cuDNN
      const Computed want = Compute(c, math, 1, 1);
      for (const auto& [in, out] : {std::pair(1, 2), {2, 1}, {2, 2}}) {
        SCOPED_TRACE(testing::Message() << c.name << ", math " << static_cast<int>(math) << ", " << in << " to "
                                        << out);
        const Computed got = Compute(c, math, in, out);
        ASSERT_EQ(got.results.size(), want.results.size());
        for (size_t i = 0; i < got.results.size(); ++i) {
          ExpectNear(got.results[i], want.results[i], i == 3 ? 1e-5f : 0, "result " + std::to_string(i));
        }
      }
    }
  }
}

/// An input or an output that lies otherwise is copied in each call; in groups nothing is.
TEST(ChannelGroups, SpareConvolutionsTheirCopies) {
  for (const GpuMath math : kMaths) {
    const Computed none = Compute(GroupedConvolution(false), math, 1, 1);
    if (none.forward == 0) GTEST_SKIP() << "counts the launches of a fake";
    const Computed both = Compute(GroupedConvolution(false), math, 2, 2);
    EXPECT_EQ(none.forward, 3);  // x, the library's call, y
    EXPECT_EQ(both.forward, 1);
    EXPECT_EQ(none.backward_input, 3);  // dy, the library's call, dx
    EXPECT_EQ(both.backward_input, 1);
    // x and dy are not copied, and the sums of the second group's bias gradient take two launches more.
    EXPECT_EQ(none.backward_params, both.backward_params);
    const Computed relu = Compute(GroupedConvolution(true), math, 2, 2);
    EXPECT_EQ(relu.backward_input, 3);  // the ReLU's gradient in each group, the library's call
  }
}

TEST(ChannelGroups, AreThoseOfTheLibraryAlone) {
  const BackendUnderTest gpu = NewGpuUnderTest(GpuMath::kTf32);
  const auto op_of = [&](const OpCase& c, const TensorDesc& in) { return c.make(*gpu.backend, {in}).value(); };
  const std::unique_ptr<Op> convolution = op_of(GroupedConvolution(false), kIn);
  if (convolution->groups() == 1) GTEST_SKIP() << "this GPU's library computes all groups together";
  EXPECT_EQ(convolution->groups(), 2);
  EXPECT_FALSE(convolution->ReadGroups(4) || convolution->WriteGroups(4));
  EXPECT_TRUE(convolution->ReadGroups(2) && convolution->ReadGroups(1));
  const TensorDesc dense = {kIn.shape, 1};
  EXPECT_FALSE(op_of(GroupedConvolution(false), dense)->ReadGroups(2)) << "an input that is not NHWC";
  EXPECT_FALSE(op_of(Pooling(PoolingDesc::kMax), dense)->ReadGroups(2));
  EXPECT_FALSE(op_of(Pooling(PoolingDesc::kStochastic), kIn)->ReadGroups(2));
  EXPECT_FALSE(op_of(Lrn(5), dense)->WriteGroups(2));
  EXPECT_FALSE(op_of(Lrn(7), kIn)->WriteGroups(2)) << "a window that reads its neighbours through the cache";
  EXPECT_FALSE(op_of(Pooling(PoolingDesc::kMax), {{2, 36, 9, 7}, 36})->WriteGroups(2)) << "groups of broken packs";
  const BackendUnderTest float32 = NewGpuUnderTest(GpuMath::kFloat32);
  EXPECT_EQ(GroupedConvolution(false).make(*float32.backend, {kIn}).value()->groups(), 1);
}

}  // namespace
}  // namespace hp::test

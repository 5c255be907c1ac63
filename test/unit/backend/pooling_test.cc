#include "backend/window.h"
#include "test/unit/backend/op_test_util.h"

namespace hp::test {
namespace {

struct Case {
  const char* name;
  Shape in;
  int64_t kernel_h, kernel_w;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool global = false, ceil = true;
  Shape out;  // worked out by hand from Caffe's rule
};

const Case kCases[] = {
    {.name = "rounded up",
     .in = {2, 16, 6, 8},
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .out = {2, 16, 3, 4}},
    {.name = "overlapping",
     .in = {2, 32, 7, 7},
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .out = {2, 32, 3, 3}},
    {.name = "padded",
     .in = {2, 8, 6, 5},
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1,
     .out = {2, 8, 4, 3}},
    {.name = "last window clipped off",
     .in = {2, 5, 5, 5},
     .kernel_h = 2,
     .kernel_w = 2,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1,
     .out = {2, 5, 3, 3}},
    {.name = "uneven and padded on one axis",
     .in = {1, 21, 7, 9},
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 3,
     .pad_h = 2,
     .pad_w = 0,
     .out = {1, 21, 9, 3}},
    {.name = "kernel beyond the image",
     .in = {2, 3, 2, 2},
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .out = {2, 3, 1, 1}},
    {.name = "rounded down",
     .in = {1, 4, 6, 6},
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .ceil = false,
     .out = {1, 4, 2, 2}},
    {.name = "gaps",
     .in = {1, 4, 7, 7},
     .kernel_h = 2,
     .kernel_w = 2,
     .stride_h = 3,
     .stride_w = 3,
     .out = {1, 4, 3, 3}},
    {.name = "large enough for all threads",
     .in = {2, 32, 21, 21},
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .out = {2, 32, 10, 10}},
    {.name = "global", .in = {2, 16, 4, 3}, .kernel_h = 0, .kernel_w = 0, .global = true, .out = {2, 16, 1, 1}},
    {.name = "places beyond a byte",
     .in = {1, 2, 17, 17},
     .kernel_h = 0,
     .kernel_w = 0,
     .global = true,
     .out = {1, 2, 1, 1}},
};

PoolingDesc Desc(const Case& c, PoolingDesc::Method method) {
  return {method, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.pad_h, c.pad_w, c.global, c.ceil};
}

/// Caffe's rule for one window, straight from its text.
float PoolWindow(const Case& c, PoolingDesc::Method method, const float* plane, int64_t y, int64_t x) {
  const int64_t height = c.in[2], width = c.in[3];
  const int64_t kernel_h = c.global ? height : c.kernel_h, kernel_w = c.global ? width : c.kernel_w;
  int64_t hstart = y * c.stride_h - c.pad_h, wstart = x * c.stride_w - c.pad_w;
  int64_t hend = std::min(hstart + kernel_h, height + c.pad_h), wend = std::min(wstart + kernel_w, width + c.pad_w);
  const int64_t pool_size = (hend - hstart) * (wend - wstart);
  hstart = std::max<int64_t>(hstart, 0), wstart = std::max<int64_t>(wstart, 0);
  hend = std::min(hend, height), wend = std::min(wend, width);
  double sum = 0, largest = -1e30;
  for (int64_t h = hstart; h < hend; ++h) {
    for (int64_t w = wstart; w < wend; ++w) {
      sum += plane[h * width + w];
      largest = std::max<double>(largest, plane[h * width + w]);
    }
  }
  return static_cast<float>(method == PoolingDesc::kAve ? sum / static_cast<double>(pool_size) : largest);
}

Values Reference(const Case& c, PoolingDesc::Method method, const Values& in) {
  Values out;
  for (int64_t plane = 0; plane < c.in[0] * c.in[1]; ++plane) {
    for (int64_t y = 0; y < c.out[2]; ++y) {
      for (int64_t x = 0; x < c.out[3]; ++x) {
        out.push_back(PoolWindow(c, method, in.data() + plane * c.in[2] * c.in[3], y, x));
      }
    }
  }
  return out;
}

class PoolingTest : public testing::TestWithParam<Case> {
 protected:
  template <typename Body>
  void ForEachLayout(PoolingDesc::Method method, const Body& body) {
    const Case& c = GetParam();
    for (const TensorDesc& in : LayoutsOf(c.in)) {
      SCOPED_TRACE(std::string(c.name) + ", in blocks of " + std::to_string(in.channel_block));
      auto op = UnderTest().backend->Pooling(Desc(c, method), {in});
      ASSERT_TRUE(op.ok()) << op.status();
      ASSERT_EQ(op.value()->outputs()[0], (TensorDesc{c.out, in.channel_block}));
      OpRunner runner(op->get(), {in});
      runner.SetInput(0, DistinctValues(c.in.count(), 1));
      body(&runner);
    }
  }
};

TEST_P(PoolingTest, ForwardFollowsCaffesRule) {
  for (PoolingDesc::Method method : {PoolingDesc::kMax, PoolingDesc::kAve}) {
    ForEachLayout(method, [method](OpRunner* runner) {
      runner->SetInput(0, RandomValues(GetParam().in.count(), 2));
      runner->Forward();
      ExpectNear(runner->Output(), Reference(GetParam(), method, runner->input(0)), 1e-5f, "output");
    });
  }
}

TEST_P(PoolingTest, GradientsMatchCentralDifferences) {
  for (PoolingDesc::Method method : {PoolingDesc::kMax, PoolingDesc::kAve}) {
    ForEachLayout(method, [](OpRunner* runner) {
      GradientOptions options;
      options.samples = 100;
      CheckGradients(runner, options);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PoolingTest, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(PooledSize, FollowsCaffe) {
  EXPECT_EQ(PooledSize(55, 3, 2, 0, true, false), 27);  // AlexNet
  EXPECT_EQ(PooledSize(32, 3, 2, 0, true, false), 16);  // cifar10: 15.5 rounded up
  EXPECT_EQ(PooledSize(32, 3, 2, 0, false, false), 15);
  EXPECT_EQ(PooledSize(5, 2, 2, 1, true, true), 3);  // the fourth window would begin behind the image
  EXPECT_EQ(PooledSize(5, 2, 2, 0, true, true), 3);  // padding on the other axis: it would begin at 6, as Caffe cuts
  EXPECT_LT(PooledSize(2, 5, 2, 0, true, false), 1);
  EXPECT_LT(PooledSize(2, 7, 2, 0, false, false), 1);
  EXPECT_LT(PooledSize(4, 5, 2, 0, false, false), 1);
  EXPECT_EQ(PooledSize(4, 5, 2, 0, true, false), 1);
}

TEST(MaxPooling, TheFirstOfEqualMaximaGetsTheGradient) {
  PoolingDesc desc;
  desc.kernel_h = desc.kernel_w = 2, desc.stride_h = desc.stride_w = 2;
  const TensorDesc in = {Shape{1, 1, 4, 4}, 1};
  auto op = UnderTest().backend->Pooling(desc, {in});
  OpRunner runner(op->get(), {in});
  runner.SetInput(0, {1, 1, 0, 2,  //
                      1, 1, 2, 2,  //
                      0, 0, 5, 5,  //
                      0, 3, 5, 5});
  runner.SetOutputGradient(0, {1, 2, 3, 4});
  runner.Forward();
  runner.BackwardInput();
  EXPECT_EQ(runner.InputGradient(), (Values{1, 0, 0, 2,  //
                                            0, 0, 0, 0,  //
                                            0, 0, 4, 0,  //
                                            0, 3, 0, 0}));
}

TEST(MaxPooling, ANanComesThrough) {
  PoolingDesc desc;
  desc.kernel_h = desc.kernel_w = 2, desc.stride_h = desc.stride_w = 2;
  const TensorDesc in = {Shape{1, 16, 2, 2}, 16};
  auto op = UnderTest().backend->Pooling(desc, {in});
  OpRunner runner(op->get(), {in});
  runner.SetInput(0, Values(in.count(), std::nanf("")));
  runner.Forward();
  for (float value : runner.Output()) EXPECT_TRUE(std::isnan(value));
}

TEST(AveragePooling, DividesByTheWindowClippedToImageAndPadding) {
  PoolingDesc desc;
  desc.method = PoolingDesc::kAve;
  desc.kernel_h = desc.kernel_w = 3, desc.stride_h = desc.stride_w = 2;
  const TensorDesc even = {Shape{1, 1, 4, 4}, 1}, odd = {Shape{1, 1, 3, 3}, 1};
  auto op = UnderTest().backend->Pooling(desc, {even});
  OpRunner clipped(op->get(), {even});
  clipped.SetInput(0, Values(16, 1.0f));
  clipped.Forward();
  ExpectNear(clipped.Output(), {1, 1, 1, 1}, 1e-6f, "windows beyond the image count what is inside");

  desc.pad_h = desc.pad_w = 1;
  auto padded_op = UnderTest().backend->Pooling(desc, {odd});
  OpRunner padded(padded_op->get(), {odd});
  padded.SetInput(0, Values(9, 1.0f));
  padded.Forward();
  ExpectNear(padded.Output(), Values(4, 4.0f / 9), 1e-6f, "padding counts as zeros");
}

}  // namespace
}  // namespace hp::test

#include "test/unit/backend/op_test_util.h"

namespace hp::test {
namespace {

struct Case {
  const char* name;
  Shape in;
  LrnDesc desc;
};

constexpr auto kAcross = LrnDesc::kAcrossChannels;
constexpr auto kWithin = LrnDesc::kWithinChannel;

// alpha is large, so that the scale is far from k and its gradient counts.
const Case kCases[] = {
    {"across, AlexNet", {2, 32, 5, 5}, {kAcross, 5, 2.0f, 0.75f, 1.0f}},
    {"across, k 2", {2, 16, 4, 4}, {kAcross, 3, 1.5f, 0.75f, 2.0f}},
    {"across, beta 0.5", {1, 24, 3, 3}, {kAcross, 5, 2.0f, 0.5f, 1.0f}},
    {"across, beta 1", {1, 16, 3, 3}, {kAcross, 5, 2.0f, 1.0f, 1.0f}},
    {"across, any beta", {1, 16, 3, 3}, {kAcross, 5, 2.0f, 0.6f, 1.0f}},
    {"across, window beyond all channels", {2, 3, 4, 4}, {kAcross, 9, 3.0f, 0.75f, 1.0f}},
    {"across, window of one", {2, 8, 4, 4}, {kAcross, 1, 3.0f, 0.75f, 1.0f}},
    {"across, several tiles of pixels", {1, 21, 11, 13}, {kAcross, 7, 3.0f, 0.75f, 1.0f}},
    {"across, large enough for all threads", {2, 48, 14, 15}, {kAcross, 5, 2.0f, 0.75f, 1.0f}},
    {"within, cifar10_full", {2, 32, 6, 6}, {kWithin, 3, 2.0f, 0.75f, 1.0f}},
    {"within, k plays no part", {2, 5, 5, 7}, {kWithin, 5, 3.0f, 0.75f, 7.0f}},
    {"within, window beyond the image", {1, 16, 4, 2}, {kWithin, 7, 9.0f, 0.5f, 1.0f}},
    {"within, any beta", {1, 21, 4, 4}, {kWithin, 3, 2.0f, 0.9f, 1.0f}},
    {"within, large enough for all threads", {2, 48, 14, 15}, {kWithin, 5, 4.0f, 0.75f, 1.0f}},
    {"within, window of one", {1, 8, 3, 3}, {kWithin, 1, 2.0f, 1.0f, 1.0f}},
};

/// The definition, element by element, in double.
Values Reference(const Case& c, const Values& in) {
  const int64_t channels = c.in[1], height = c.in[2], width = c.in[3], margin = c.desc.local_size / 2;
  const bool across = c.desc.region == kAcross;
  const auto at = [&](int64_t n, int64_t i, int64_t h, int64_t w) -> double {
    if (i < 0 || h < 0 || w < 0 || i >= channels || h >= height || w >= width) return 0;
    return in[((n * channels + i) * height + h) * width + w];
  };
  Values out;
  for (int64_t n = 0; n < c.in[0]; ++n) {
    for (int64_t i = 0; i < channels; ++i) {
      for (int64_t h = 0; h < height; ++h) {
        for (int64_t w = 0; w < width; ++w) {
          double sum = 0;
          for (int64_t a = -margin; a <= margin; ++a) {
            if (across) sum += at(n, i + a, h, w) * at(n, i + a, h, w);
            for (int64_t b = -margin; b <= margin && !across; ++b)
              sum += at(n, i, h + a, w + b) * at(n, i, h + a, w + b);
          }
          const double count = static_cast<double>(across ? c.desc.local_size : c.desc.local_size * c.desc.local_size);
          const double scale = (across ? c.desc.k : 1.0) + c.desc.alpha / count * sum;
          out.push_back(static_cast<float>(at(n, i, h, w) * std::pow(scale, -static_cast<double>(c.desc.beta))));
        }
      }
    }
  }
  return out;
}

class LrnTest : public testing::TestWithParam<Case> {
 protected:
  template <typename Body>
  void ForEachLayout(const Body& body) {
    const Case& c = GetParam();
    for (const TensorDesc& in : LayoutsOf(c.in)) {
      SCOPED_TRACE(std::string(c.name) + ", in blocks of " + std::to_string(in.channel_block));
      auto op = UnderTest().backend->Lrn(c.desc, {in});
      ASSERT_TRUE(op.ok()) << op.status();
      ASSERT_EQ(op.value()->outputs()[0], in);
      OpRunner runner(op->get(), {in});
      runner.SetInput(0, RandomValues(c.in.count(), 1, -2, 2));
      body(&runner);
    }
  }
};

TEST_P(LrnTest, ForwardIsTheDefinition) {
  ForEachLayout([](OpRunner* runner) {
    runner->Forward();
    ExpectNear(runner->Output(), Reference(GetParam(), runner->input(0)), 2e-6f, "output");
  });
}

TEST_P(LrnTest, GradientsMatchCentralDifferences) {
  ForEachLayout([](OpRunner* runner) { CheckGradients(runner, {.samples = 80}); });
}

INSTANTIATE_TEST_SUITE_P(Cases, LrnTest, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(Lrn, ANanComesThrough) {
  for (LrnDesc::Region region : {kAcross, kWithin}) {
    const TensorDesc in = {Shape{1, 16, 3, 3}, 16};
    auto op = UnderTest().backend->Lrn({region, 3, 1.0f, 0.75f, 1.0f}, {in});
    OpRunner runner(op->get(), {in});
    Values values(in.count(), 1.0f);
    values[4] = std::nanf("");  // channel 0, the middle
    runner.SetInput(0, values);
    runner.Forward();
    EXPECT_TRUE(std::isnan(runner.Output()[4]));
    EXPECT_TRUE(std::isnan(runner.Output()[region == kAcross ? 9 + 4 : 3]));
  }
}

}  // namespace
}  // namespace hp::test

#include "test/unit/backend/op_test_util.h"

namespace hp::test {
namespace {

struct Case {
  const char* name;
  Shape in;
  ScaleDesc desc;
  Shape factors;
  bool learned = true;
};

const Case kCases[] = {
    {"channels", {3, 16, 4, 5}, {1, 2, false}, {16}},
    {"channels with bias", {2, 32, 3, 3}, {1, 2, true}, {32}},
    {"rows of numbers", {5, 12}, {1, 2, true}, {12}},
    {"one pixel", {4, 24, 1, 1}, {1, 2, true}, {24}},
    {"one factor", {2, 16, 3, 2}, {1, 1, true}, {1}},
    {"all units", {2, 16, 3, 2}, {1, 4, true}, {16, 3, 2}},
    {"pixels", {2, 16, 3, 2}, {2, 4, false}, {3, 2}},
    {"large enough for all threads", {2, 48, 24, 25}, {1, 2, true}, {48}},
    {"two inputs, a factor a channel", {3, 16, 4, 5}, {0, 2, false}, {3, 16}, false},
    {"two inputs, a factor a row", {3, 16, 4, 5}, {0, 1, false}, {3}, false},
    {"two inputs, a factor an element", {2, 16, 2, 2}, {0, 4, false}, {2, 16, 2, 2}, false},
};

class ScaleTest : public testing::TestWithParam<Case> {
 protected:
  /// Index into the factors of element i, dense.
  static int64_t FactorOf(const Case& c, int64_t i) {
    const int64_t behind = c.desc.axis_end == c.in.rank() ? 1 : c.in.count(c.desc.axis_end);
    return i / behind % c.factors.count();
  }

  template <typename Body>
  void ForEachLayout(const Body& body) {
    const Case& c = GetParam();
    const std::vector<TensorDesc> second = c.learned ? std::vector<TensorDesc>{{c.factors, 1}} : LayoutsOf(c.factors);
    for (const TensorDesc& x : LayoutsOf(c.in)) {
      for (const TensorDesc& factors : second) {
        SCOPED_TRACE(std::string(c.name) + ", in blocks of " + std::to_string(x.channel_block) + " and " +
                     std::to_string(factors.channel_block));
        std::vector<TensorDesc> in = {x};
        if (!c.learned) in.push_back(factors);
        auto op = UnderTest().backend->Scale(c.desc, in);
        ASSERT_TRUE(op.ok()) << op.status();
        std::vector<Shape> params(c.learned ? (c.desc.bias ? 2 : 1) : 0, c.factors);
        OpRunner runner(op->get(), in, params);
        runner.SetInput(0, RandomValues(c.in.count(), 1));
        const Values values = RandomValues(c.factors.count(), 2), bias = RandomValues(c.factors.count(), 3);
        if (c.learned) runner.SetParam(0, values);
        if (!c.learned) runner.SetInput(1, values);
        if (c.desc.bias) runner.SetParam(1, bias);
        body(&runner, values, bias);
      }
    }
  }
};

TEST_P(ScaleTest, ForwardIsTheDefinition) {
  ForEachLayout([](OpRunner* runner, const Values& factors, const Values& bias) {
    const Case& c = GetParam();
    runner->Forward();
    Values y = runner->input(0);
    for (size_t i = 0; i < y.size(); ++i) {
      const int64_t f = FactorOf(c, static_cast<int64_t>(i));
      y[i] = y[i] * factors[f] + (c.desc.bias ? bias[f] : 0);
    }
    ExpectNear(runner->Output(), y, 1e-6f, "output");
  });
}

TEST_P(ScaleTest, GradientsMatchCentralDifferences) {
  ForEachLayout([](OpRunner* runner, const Values&, const Values&) {
    CheckGradients(runner, {.tolerance = 5e-3f, .samples = 24});
  });
}

TEST_P(ScaleTest, GradientsOfFactorsAddUp) {
  if (!GetParam().learned) return;  // it has none
  ForEachLayout([](OpRunner* runner, const Values&, const Values&) {
    runner->SetOutputGradient(0, RandomValues(GetParam().in.count(), 4));
    runner->Forward();
    runner->BackwardParams();
    Values twice = runner->ParamGradient(0);
    for (float& value : twice) value *= 2;
    runner->BackwardParams(true);
    ExpectNear(runner->ParamGradient(0), twice, 1e-5f, "factors");
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, ScaleTest, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace hp::test

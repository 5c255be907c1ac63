#include "test/unit/backend/op_test_util.h"

namespace hp::test {
namespace {

struct Case {
  const char* name;
  Shape in;
  BroadcastDesc desc;
  Shape factors;
  bool learned = true;
};

constexpr broadcast::Product kProduct;
constexpr broadcast::Sum kSum;
constexpr broadcast::Prelu kPrelu;

const Case kCases[] = {
    {"channels", {3, 16, 4, 5}, {kProduct, 1, 2, false}, {16}},
    {"channels with bias", {2, 32, 3, 3}, {kProduct, 1, 2, true}, {32}},
    {"rows of numbers", {5, 12}, {kProduct, 1, 2, true}, {12}},
    {"one pixel", {4, 24, 1, 1}, {kProduct, 1, 2, true}, {24}},
    {"one factor", {2, 16, 3, 2}, {kProduct, 1, 1, true}, {1}},
    {"all units", {2, 16, 3, 2}, {kProduct, 1, 4, true}, {16, 3, 2}},
    {"pixels", {2, 16, 3, 2}, {kProduct, 2, 4, false}, {3, 2}},
    {"large enough for all threads", {2, 48, 24, 25}, {kProduct, 1, 2, true}, {48}},
    {"many pixels", {3, 16, 20, 41}, {kProduct, 1, 2, true}, {16}},
    {"many rows of numbers", {900, 12}, {kProduct, 1, 2, true}, {12}},
    {"two inputs, a factor a channel", {3, 16, 4, 5}, {kProduct, 0, 2, false}, {3, 16}, false},
    {"two inputs, a factor a row", {3, 16, 4, 5}, {kProduct, 0, 1, false}, {3}, false},
    {"two inputs, a factor an element", {2, 16, 2, 2}, {kProduct, 0, 4, false}, {2, 16, 2, 2}, false},
    {"addends of channels", {3, 16, 4, 5}, {kSum, 1, 2, false}, {16}},
    {"addends of units", {2, 16, 3, 2}, {kSum, 1, 4, false}, {16, 3, 2}},
    {"one addend", {2, 16, 3, 2}, {kSum, 1, 1, false}, {1}},
    {"two inputs, an addend a channel", {3, 16, 4, 5}, {kSum, 0, 2, false}, {3, 16}, false},
    {"slopes of channels", {3, 16, 4, 5}, {kPrelu, 1, 2, false}, {16}},
    {"slopes of columns", {5, 12}, {kPrelu, 1, 2, false}, {12}},
    {"slopes of many pixels", {3, 16, 20, 41}, {kPrelu, 1, 2, false}, {16}},
    {"slopes of one pixel", {4, 24, 1, 1}, {kPrelu, 1, 2, false}, {24}},
    {"one slope", {2, 16, 3, 2}, {kPrelu, 1, 1, false}, {1}},
    {"slopes, large enough for all threads", {2, 48, 24, 25}, {kPrelu, 1, 2, false}, {48}},
};

class BroadcastTest : public testing::TestWithParam<Case> {
 protected:
  /// Index into the factors of element i, dense.
  static int64_t FactorOf(const Case& c, int64_t i) {
    const int64_t behind = c.desc.axis_end == c.in.rank() ? 1 : c.in.count(c.desc.axis_end);
    return i / behind % c.factors.count();
  }

  static float Expected(const BroadcastDesc& desc, float x, float p) {
    switch (desc.function.index()) {
      case 0:
        return x * p;
      case 1:
        return x + p;
      default:
        return x > 0 ? x : x * p;
    }
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
        auto op = UnderTest().backend->Broadcast(c.desc, in);
        ASSERT_TRUE(op.ok()) << op.status();
        std::vector<Shape> params(c.learned ? (c.desc.bias ? 2 : 1) : 0, c.factors);
        OpRunner runner(op->get(), in, params);
        // Not near the kink of slopes.
        runner.SetInput(0, DistinctValues(c.in.count(), 1, c.in.count() > 1000 ? 1e-3f : 0.03f));
        const Values values = RandomValues(c.factors.count(), 2), bias = RandomValues(c.factors.count(), 3);
        if (c.learned) runner.SetParam(0, values);
        if (!c.learned) runner.SetInput(1, values);
        if (c.desc.bias) runner.SetParam(1, bias);
        body(&runner, values, bias);
      }
    }
  }
};

TEST_P(BroadcastTest, ForwardIsTheDefinition) {
  ForEachLayout([](OpRunner* runner, const Values& factors, const Values& bias) {
    const Case& c = GetParam();
    runner->Forward();
    Values y = runner->input(0);
    for (size_t i = 0; i < y.size(); ++i) {
      const int64_t f = FactorOf(c, static_cast<int64_t>(i));
      y[i] = Expected(c.desc, y[i], factors[f]) + (c.desc.bias ? bias[f] : 0);
    }
    ExpectNear(runner->Output(), y, 1e-6f, "output");
  });
}

TEST_P(BroadcastTest, GradientsMatchCentralDifferences) {
  ForEachLayout([](OpRunner* runner, const Values&, const Values&) {
    CheckGradients(runner, {.tolerance = 5e-3f, .samples = 24});
  });
}

TEST_P(BroadcastTest, GradientsOfFactorsAddUp) {
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

INSTANTIATE_TEST_SUITE_P(Cases, BroadcastTest, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace hp::test

// ReLUs that ops behind or before them do on their way, beside an op of their own: the same bits.
#include "backend/backend.h"
#include "test/unit/backend/op_test_util.h"

#include <limits>
#include <memory>

namespace hp::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ReluWithin : public testing::TestWithParam<ElementType> {
 protected:
  /// One channel, few pixels, more channels than a vector and not a multiple of one.
  const std::vector<Shape> shapes_ = {{3, 32, 5, 3}, {2, 1, 7, 9}, {2, 21, 2, 2}, {4, 35}};

  template <typename Body>
  void ForEachLayout(const Body& body) {
    for (const Shape& shape : shapes_) {
      for (TensorDesc desc : LayoutsOf(shape)) {
        desc.element = GetParam();
        SCOPED_TRACE(shape.ToString() + ", in blocks of " + std::to_string(desc.channel_block));
        body(desc);
      }
    }
  }
  std::unique_ptr<Op> Relu(const TensorDesc& desc) {
    auto op = backend_->Activation(activation::Relu<activation::From::kOutput>{0}, {desc});
    EXPECT_TRUE(op.ok()) << op.status();
    EXPECT_TRUE((*op)->is_plain_relu());
    return *std::move(op);
  }
  /// Where there are several channels, whose sums it does not reach.
  static Values WithNan(const TensorDesc& desc, Values values) {
    if (desc.shape[1] > 1) values[values.size() / 2] = kNan;
    return values;
  }
  static void ExpectSameBits(const Values& got, const Values& want, const std::string& what) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0)
          << what << " [" << i << "]: " << got[i] << ", not " << want[i];
    }
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend(GetParam());
};

TEST_P(ReluWithin, AScaledNormWritesItAndTakesItsGradient) {
  for (const bool params_first : {false, true}) {
    ForEachLayout([&](const TensorDesc& desc) {
      const int64_t channels = desc.shape[1], count = desc.count();
      std::vector<std::unique_ptr<Op>> ops;
      std::vector<std::unique_ptr<OpRunner>> runners;
      for (int i = 0; i < 2; ++i) {
        auto op = backend_->ScaledNorm(/*bias=*/true, {desc, {{kMomentRows, channels}, 1}});
        ASSERT_TRUE(op.ok()) << op.status();
        ops.push_back(*std::move(op));
      }
      ASSERT_TRUE(ops[1]->TakeReluBehind());
      ASSERT_TRUE(ops[1]->TakeReluGradientBehind());
      for (const auto& op : ops) {
        const std::vector<Shape> params(2, Shape{channels});
        runners.push_back(
            std::make_unique<OpRunner>(op.get(), std::vector<TensorDesc>{desc, {{kMomentRows, channels}, 1}}, params));
        OpRunner& runner = *runners.back();
        runner.SetInput(0, WithNan(desc, RandomValues(count, 1)));
        runner.SetInput(1, RandomValues(kMomentRows * channels, 2, 0.5f, 1));
        runner.SkipInputGradient(1);
        for (int i = 0; i < 2; ++i) runner.SetParam(i, RandomValues(channels, 3 + i));
        runner.Forward();
      }
      const auto relu = Relu(desc);
      OpRunner behind(relu.get(), {desc}, {}, /*in_place=*/true);
      behind.SetInput(0, runners[0]->Output());
      behind.Forward();
      ExpectSameBits(runners[1]->Output(), behind.Output(), "output");
      behind.SetOutputGradient(0, RandomValues(count, 7));
      behind.BackwardInput();
      runners[0]->SetOutputGradient(0, behind.InputGradient());
      runners[1]->SetOutputGradient(0, RandomValues(count, 7));
      for (const auto& runner : runners) {
        if (params_first) runner->BackwardParams();
        runner->BackwardInput();
        if (!params_first) runner->BackwardParams();
      }
      ExpectSameBits(runners[1]->InputGradient(), runners[0]->InputGradient(), "gradient of x");
      for (int i = 0; i < 2; ++i) {
        ExpectSameBits(runners[1]->ParamGradient(i), runners[0]->ParamGradient(i), "of parameter " + std::to_string(i));
      }
    });
  }
}

TEST_P(ReluWithin, AnEltwiseWritesIt) {
  for (const auto operation : {EltwiseDesc::kSum, EltwiseDesc::kProd, EltwiseDesc::kMax}) {
    ForEachLayout([&](const TensorDesc& desc) {
      std::vector<Values> outputs;
      for (const bool takes : {false, true}) {
        auto op = backend_->Eltwise({.operation = operation, .coeff = {}}, {desc, desc});
        ASSERT_TRUE(op.ok()) << op.status();
        if (takes) {
          ASSERT_TRUE((*op)->TakeReluBehind());
        }
        OpRunner runner(op->get(), {desc, desc});
        runner.SetInput(0, WithNan(desc, RandomValues(desc.count(), 1)));
        runner.SetInput(1, RandomValues(desc.count(), 2));
        runner.Forward();
        outputs.push_back(runner.Output());
      }
      const auto relu = Relu(desc);
      OpRunner behind(relu.get(), {desc}, {}, /*in_place=*/true);
      behind.SetInput(0, outputs[0]);
      behind.Forward();
      ExpectSameBits(outputs[1], behind.Output(), "output");
    });
  }
}

TEST_P(ReluWithin, ASplitTakesItsGradient) {
  ForEachLayout([&](const TensorDesc& desc) {
    const auto relu = Relu(desc);
    OpRunner before(relu.get(), {desc}, {}, /*in_place=*/true);
    before.SetInput(0, WithNan(desc, RandomValues(desc.count(), 1)));
    before.Forward();
    std::vector<Values> gradients;
    for (const bool takes : {false, true}) {
      auto op = backend_->Split(3, {desc});
      ASSERT_TRUE(op.ok()) << op.status();
      EXPECT_FALSE((*op)->backward_reads_input());
      if (takes) {
        ASSERT_TRUE((*op)->TakeReluGradientBefore());
        EXPECT_TRUE((*op)->backward_reads_input());
      }
      OpRunner runner(op->get(), {desc});
      runner.SetInput(0, before.Output());
      runner.Forward();
      for (int i = 0; i < 3; ++i) runner.SetOutputGradient(i, RandomValues(desc.count(), 10 + i));
      runner.BackwardInput();
      gradients.push_back(runner.InputGradient());
    }
    before.SetOutputGradient(0, gradients[0]);
    before.BackwardInput();
    ExpectSameBits(gradients[1], before.InputGradient(), "gradient");
  });
}

TEST(ReluWithinOthers, AnswerNothing) {
  const TensorDesc desc{{2, 8, 3, 3}, 8};
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  auto abs = backend->Activation(activation::Abs{}, {desc});
  auto leaky = backend->Activation(activation::Relu<activation::From::kOutput>{0.1f}, {desc});
  auto bent = backend->Activation(activation::Relu<activation::From::kInput>{-1}, {desc});
  ASSERT_TRUE(abs.ok() && leaky.ok() && bent.ok());
  for (Op* op : {abs->get(), leaky->get(), bent->get()}) {
    EXPECT_FALSE(op->is_plain_relu());
    EXPECT_FALSE(op->TakeReluBehind() || op->TakeReluGradientBehind() || op->TakeReluGradientBefore());
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, ReluWithin, testing::Values(ElementType::kFloat32, ElementType::kBFloat16));

}  // namespace
}  // namespace hp::test

// The classes of a test in blocks, beside the same layers one by one, which have the scores of all classes in memory.
#include "net/class_blocks.h"

#include "test/unit/backend/op_test_util.h"
#include "test/unit/net/net_test_util.h"

#include <functional>

namespace hp::test {
namespace {

constexpr int kRows = 9, kFeatures = 5, kIgnored = 3;
const float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::nanf("");

/// A head and what reads it, over classes of which this node has `here` of `count`.
struct Head {
  Range here = {0, 50};
  int64_t count = 50;
  bool normalize = false;
  std::string loss = "", accuracy = "";  ///< fields
  Values features = RandomValues(kRows * kFeatures, 1, -3, 3);
  Values weights = RandomValues(here.size() * kFeatures, 2);
  Values labels = {0, 3, 7, 49, 12, 25, 33, 8, 21};

  LayerTraits Layer(const std::string& text) {
    nets.push_back(ParseNet("layer { " + text + " }"));
    return LayerTraits::Create(nets.back()->layer(0), LayerTypes::BuiltIn()).value();
  }
  LayerTraits Product() {
    return Layer(
        "name: 'head' type: 'InnerProduct' bottom: 'x' top: 'head' inner_product_param { num_output: 50 "
        "bias_term: false sample_rate: 0.5" +
        std::string(normalize ? " normalize: true }" : " }"));
  }
  std::vector<LayerTraits> Readers() {
    return {Layer("name: 'loss' type: 'SoftmaxWithLoss' bottom: 'head' bottom: 'label' top: 'loss' " + loss),
            Layer("name: 'top1' type: 'Accuracy' bottom: 'head' bottom: 'label' top: 'top1' " + accuracy),
            Layer("name: 'top5' type: 'Accuracy' bottom: 'head' bottom: 'label' top: 'top5' accuracy_param { top_k: 5 "
                  "}")};
  }
  OpContext Context() const {
    OpContext context;
    context.backend = UnderTest().backend.get();
    context.input_gradient = false;
    context.channel_begin = here.begin, context.channel_end = here.end, context.channel_count = count;
    return context;
  }
  void SetBatch(OpRunner* runner) const {
    runner->batch().train = false;
    runner->batch().labels = runner->batch().batch_labels = labels;
    runner->batch().global_rows = kRows;
  }

  std::vector<std::shared_ptr<const caffe::NetParameter>> nets = {};  ///< what traits refer to
};

const std::vector<TensorDesc> kIn = {{{kRows, kFeatures}, 1}};

/// What each reader yields. @param numbers the numbers of the classes here, instead of the statistic.
std::vector<Values> InBlocks(Head head, int64_t block, bool numbers) {
  const LayerTraits product = head.Product();
  const std::vector<LayerTraits> layers = head.Readers();
  std::vector<ClassReader> readers;
  for (const LayerTraits& layer : layers) readers.push_back({&layer, numbers});
  OpContext context = head.Context();
  context.sample_room = block;
  const auto op = MakeClassBlocks({OpFactories::BuiltIn(), context, product, readers, kIn}).value();
  OpRunner runner(op.get(), kIn, {{head.here.size(), kFeatures}});
  head.SetBatch(&runner);
  runner.SetInput(0, head.features);
  runner.SetParam(0, head.weights);
  runner.Forward();
  std::vector<Values> outputs;
  for (size_t i = 0; i < layers.size(); ++i) outputs.push_back(runner.Output(static_cast<int>(i)));
  return outputs;
}

std::vector<Values> OneByOne(Head head, bool numbers) {
  OpContext context = head.Context();
  const auto product = OpFactories::BuiltIn().Create(head.Product(), context, kIn).value();
  OpRunner scores(product.get(), kIn, {{head.here.size(), kFeatures}});
  scores.SetInput(0, head.features);
  scores.SetParam(0, head.weights);
  scores.Forward();
  if (numbers) context.part = OpContext::kClasses;
  std::vector<Values> outputs;
  for (const LayerTraits& layer : head.Readers()) {
    const auto op = OpFactories::BuiltIn().Create(layer, context, product->outputs()).value();
    OpRunner reader(op.get(), product->outputs());
    head.SetBatch(&reader);
    reader.SetInput(0, scores.Output());
    reader.Forward();
    outputs.push_back(reader.Output());
  }
  return outputs;
}

/// NaN agrees with NaN. The largest scores of others may stand in any order.
void ExpectAgree(std::vector<Values> got, std::vector<Values> want, bool numbers) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t reader = 0; reader < got.size(); ++reader) {
    ASSERT_EQ(got[reader].size(), want[reader].size());
    const int64_t width = std::ssize(got[reader]) / (numbers ? kRows : 1);
    for (auto* values : {&got[reader], &want[reader]}) {
      for (auto row = values->begin(); reader > 0 && row != values->end(); row += width) {
        std::replace_if(
            row, row + width, [](float score) { return std::isnan(score); }, -kInfinity);
        std::sort(row + 1, row + width);
      }
    }
    for (size_t i = 0; i < got[reader].size(); ++i) {
      const float a = got[reader][i], b = want[reader][i];
      EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)) ||
                  std::fabs(a - b) <= 2e-5f * std::max(1.0f, std::fabs(b)))
          << "reader " << reader << " [" << i << "]: " << a << ", not " << b;
    }
  }
}

void ExpectAsOneByOne(const Head& head) {
  for (const bool numbers : {false, true}) {
    if (!numbers && head.here.size() != head.count) continue;
    const std::vector<Values> want = OneByOne(head, numbers);
    for (const int64_t block : {1, 4, 7, 25, 49, 50, 64}) {
      SCOPED_TRACE("blocks of " + std::to_string(block) + (numbers ? ", numbers" : ""));
      ExpectAgree(InBlocks(head, block, numbers), want, numbers);
    }
  }
}

TEST(ClassBlocks, AreTheLayersOneByOne) {
  for (const bool normalize : {false, true}) {
    for (const char* margin : {"", "margin_param { scale: 16 angle: 0.4 cosine: 0.1 }"}) {
      ExpectAsOneByOne({.normalize = normalize, .loss = margin});
    }
  }
  EXPECT_GT(OneByOne({}, false)[0][0], 1) << "a loss";
  EXPECT_GT(OneByOne({}, false)[2][0], 0) << "an accuracy";
}

TEST(ClassBlocks, OfAShardSayTheSameNumbers) {
  for (const Range& here : {Range{0, 17}, Range{17, 34}, Range{34, 50}, Range{20, 21}}) {
    ExpectAsOneByOne({.here = here});
    ExpectAsOneByOne({.here = here, .normalize = true, .loss = "margin_param { angle: 0.5 }"});
  }
}

TEST(ClassBlocks, LabelsThatDoNotCount) {
  const std::string ignore = "ignore_label: " + std::to_string(kIgnored);
  for (const char* const normalization : {"VALID", "FULL", "NONE"}) {
    ExpectAsOneByOne({.loss = "loss_param { " + ignore + " normalization: " + normalization + " }",
                      .accuracy = "accuracy_param { " + ignore + " }"});
  }
  ExpectAsOneByOne({.labels = {-1, 50, 1e30f, kNaN, 3, 2, 1, 0, 49}});
}

TEST(ClassBlocks, TiesAndScoresThatAreNotFinite) {
  for (const float weight : {0.0f, kInfinity, -kInfinity, kNaN}) {
    for (const int64_t among : {int64_t{1}, int64_t{7}, int64_t{50}}) {  // every `among`th class; of 50 class 0 alone
      Head head;
      head.features.assign(kRows * kFeatures, 0.5f);
      for (int64_t c = 0; c < 50; c += among) std::fill_n(head.weights.begin() + c * kFeatures, kFeatures, weight);
      ExpectAsOneByOne(head);
    }
  }
}

TEST(ClassBlocks, HaveNoMemoryOfAllScores) {
  const auto bytes = [](int64_t classes) {
    Head head;
    const LayerTraits product = head.Product();
    const std::vector<LayerTraits> layers = head.Readers();
    OpContext context = head.Context();
    context.channel_end = context.channel_count = classes;
    context.sample_room = 100;
    std::vector<ClassReader> readers;
    for (const LayerTraits& layer : layers) readers.push_back({&layer, false});
    const auto op = MakeClassBlocks({OpFactories::BuiltIn(), context, product, readers, kIn}).value();
    return op->scratch_bytes() + op->saved_bytes();
  };
  // A class more costs the numbers of its block, a hundredth: 3 + 2 + 6 for each row, rounded up to 64 bytes.
  EXPECT_LE(bytes(100'000) - bytes(10'000), 90'000 / 100 * (kRows * 11 * sizeof(float) + 3 * 64));
}

}  // namespace
}  // namespace hp::test

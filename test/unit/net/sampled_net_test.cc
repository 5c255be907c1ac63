// A head of which an update computes a sample of its classes: where it may stand, and that nothing has all classes of
// the rows of a batch.
#include "net/plan/sample_room.h"
#include "test/unit/net/net_test_util.h"

#include "gmock/gmock.h"

#include <algorithm>
#include <cmath>

namespace hp::test {
namespace {

constexpr int64_t kClasses = 20'000, kSampledRows = 4, kUpdateRows = 8;

std::string Product(const std::string& fields) {
  return "layer { name: 'head' type: 'InnerProduct' bottom: 'ip1' top: 'head' inner_product_param { num_output: 20000 "
         "bias_term: false " +
         fields + " } }\n";
}
constexpr char kFeatures[] =
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' inner_product_param { num_output: 6 } }\n";
constexpr char kSampledLoss[] =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'head' bottom: 'label' top: 'loss' }\n";

std::string SampledNet(const std::string& fields = "sample_rate: 0.05 normalize: true") {
  return kFeatures + Product(fields) + kSampledLoss;
}

/// The most elements of a tensor or a matrix of an update, and of what ops save.
int64_t Largest(const NodeNet& net) {
  int64_t largest = static_cast<int64_t>(net.arena_bytes() / sizeof(float));
  for (const NetTensor& tensor : net.tensors()) {
    largest = std::max(largest, static_cast<int64_t>(net.buffer_bytes(tensor.value) / sizeof(float)));
  }
  for (size_t row : net.update_row_bytes()) {
    largest = std::max(largest, static_cast<int64_t>(row / sizeof(float)) * kUpdateRows);
  }
  return std::max(largest, static_cast<int64_t>(net.scratch_bytes() / sizeof(float)));
}

TEST(SampledNet, NothingHasAllClassesOfABatchInTraining) {
  for (const StageLayout& layout : {Layout(1, {}, {}, 4), Layout(2, {}, {}, 4), Layout(1, {1}, {2}, 4),
                                    Layout(2, {3}, {2}, 4), Layout(1, {3}, {1}, 4)}) {
    const int stage = static_cast<int>(layout.stages.size()) - 1;
    const PlacedNet sampled(SampledNet(), layout), all(SampledNet("normalize: true"), layout);
    const int64_t here = kClasses / (stage == 0 ? 1 : layout.stages[stage].parts());
    const auto net = sampled.MakeNet(stage, 0, kSampledRows, kUpdateRows);
    EXPECT_LT(Largest(*net), kSampledRows * here / 2);
    EXPECT_GE(Largest(*all.MakeNet(stage, 0, kSampledRows, kUpdateRows)), kSampledRows * here)
        << "a net that is not sampled";
    const std::vector<ParamPlan>& params = net->plan().params();
    const auto head = std::find_if(params.begin(), params.end(), [](const ParamPlan& p) { return p.layer == "head"; });
    ASSERT_NE(head, params.end());
    EXPECT_EQ(head->sample_room, SampleRoom(head->block.rows(), 0.05f, kUpdateRows));
    const int segment = net->plan().FindLayer(2)->segment;
    EXPECT_TRUE(net->plan().draws_sample(segment));
    EXPECT_TRUE(net->plan().needs_batch_labels(segment));
  }
}

TEST(SampledNet, ATestGoesOverTheClassesInBlocks) {
  const std::string accuracy =
      "layer { name: 'a' type: 'Accuracy' bottom: 'head' bottom: 'label' top: 'a' include { phase: TEST } }\n";
  for (const StageLayout& layout :
       {Layout(1, {}, {}, 5), Layout(1, {1}, {2}, 5), Layout(1, {2}, {2}, 5), Layout(1, {4}, {2}, 5)}) {
    const int stage = static_cast<int>(layout.stages.size()) - 1;
    const int64_t here = kClasses / layout.stages[stage].parts();
    const auto net = PlacedNet(SampledNet() + accuracy, layout, caffe::TEST);
    const auto made = net.MakeNet(stage, 0, kSampledRows);
    EXPECT_LE(Largest(*made), (kSampledRows + 1) * kClassBlock + 500) << "of " << here;
    const LayerPlan* const head = made->plan().FindLayer(2);
    EXPECT_EQ(head->class_block, kClassBlock);
    EXPECT_EQ(head->columns(), kClassBlock);
    EXPECT_EQ(head->channels.size(), here);
    const bool reports = std::any_of(made->outputs().begin(), made->outputs().end(),
                                     [](const NetOutput& output) { return output.blob == "a"; });
    EXPECT_TRUE(reports);
  }
}

// Few classes are one block, scores that another layer reads must be there, and those of another node are not here.
TEST(SampledNet, ATestHasAllScoresWhereItMust) {
  const auto block = [](const std::string& text, const StageLayout& layout) {
    const PlacedNet net(text, layout, caffe::TEST);
    const int stage = static_cast<int>(layout.stages.size()) - 1;
    return net.MakeNet(stage, 0, kSampledRows)->plan().FindLayer(2)->class_block;
  };
  EXPECT_EQ(block(SampledNet(), Layout(1, {2}, {2}, 4)), kClassBlock);
  EXPECT_EQ(block(SampledNet(), Layout(1, {5}, {2}, 4)), 0) << "4000 classes";
  EXPECT_EQ(block(SampledNet() + "layer { name: 's' type: 'Softmax' bottom: 'head' top: 's' }", Layout(1, {2}, {2}, 5)),
            0);
  EXPECT_EQ(block(kFeatures + Product("sample_rate: 0.1") +
                      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'head' bottom: 'label' top: 'l' top: 'p' }",
                  Layout(1, {2}, {2}, 4)),
            0)
      << "the softmax is wanted";
  EXPECT_EQ(block(SampledNet("normalize: true"), Layout(1, {2}, {2}, 4)), 0) << "no sample_rate";
  const PlacedNet apart(SampledNet(), Layout(1, {1, 1}, {2, 3}, 4), caffe::TEST);
  EXPECT_EQ(apart.MakeNet(1, 0, kSampledRows)->plan().FindLayer(2)->class_block, 0) << "the loss is on another node";
}

TEST(SampledNet, ATestIsOfAllClasses) {
  const PlacedNet net(SampledNet(), Layout(1, {}, {}, 4), caffe::TEST);
  for (const GraphLayer& layer : net.graph->layers()) EXPECT_EQ(layer.sampled_by, -1);
}

TEST(SampledNet, IsReadByOneLossAlone) {
  const auto error = [](const std::string& layers) {
    const auto graph = NetGraph::Create(ParseNet(layers), caffe::TRAIN);
    return graph.ok() ? "" : graph.status().message();
  };
  const std::string product = kFeatures + Product("sample_rate: 0.5");
  EXPECT_EQ(error(product + kSampledLoss), "");
  EXPECT_EQ(error(kFeatures + Product("sample_rate: 1")), "") << "all classes: no sample";
  const char* const expected =
      "layer \"head\": with sample_rate below 1 its top \"head\" must be read by one layer in phase TRAIN, a "
      "SoftmaxWithLoss with one top";
  const std::string accuracy = "layer { name: 'a' type: 'Accuracy' bottom: 'head' bottom: 'label' top: 'a' ";
  EXPECT_EQ(error(product + kSampledLoss + accuracy + "include { phase: TEST } }"), "");
  EXPECT_EQ(error(product), expected);
  EXPECT_EQ(error(product + kSampledLoss + accuracy + "}"), expected);
  EXPECT_EQ(error(product + "layer { name: 'r' type: 'ReLU' bottom: 'head' top: 'head' }" + kSampledLoss), expected);
  EXPECT_EQ(error(product + kSampledLoss +
                  "layer { name: 'l2' type: 'SoftmaxWithLoss' bottom: 'head' bottom: 'label' top: "
                  "'l2' }"),
            expected);
  EXPECT_EQ(error(product + "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'head' bottom: 'label' top: 'l' top: "
                            "'p' }"),
            expected);
}

TEST(SampledNet, DoesNotCross) {
  const PlacedNet net(SampledNet(), Layout(1, {2, 2}, {2, 3}, 4));
  const auto plan = NodePlan::Create(*net.graph, *net.placement, {{{1, 0}}, kSample, kUpdateRows});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().message(),
            "layer \"head\": with sample_rate below 1 it and layer \"loss\" must be in one stage, of at most as many "
            "shards as it has outputs");
}

// The tail of a binomial distribution, summed up: what a sample has no room for happens in no job.
TEST(SampleRoom, IsExceededByNoSample) {
  for (const double rate : {1e-4, 0.01, 0.1, 0.5, 0.9}) {
    for (const int64_t classes : {1, 10, 300, 20'000}) {
      const int64_t room = SampleRoom(classes, rate, 0);
      ASSERT_LE(room, classes);
      double above = 0;
      for (int64_t n = room + 1; n <= classes; ++n) {
        const double count = static_cast<double>(classes), k = static_cast<double>(n);
        const double ways = std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1);
        above += std::exp(ways + k * std::log(rate) + (count - k) * std::log1p(-rate));
      }
      EXPECT_LT(above, 1e-19) << classes << " classes at " << rate;
    }
  }
}

TEST(SampleRoom, IsTheMeanForManyClassesAndNeverMoreThanThereAre) {
  EXPECT_LT(SampleRoom(1'000'000, 0.1, 0), 103'000);
  EXPECT_EQ(SampleRoom(1'000'000, 0.1, 64), SampleRoom(1'000'000, 0.1, 0) + 64);
  EXPECT_EQ(SampleRoom(100, 0.1, 64), 100);
  EXPECT_EQ(SampleRoom(0, 0.1, 64), 1);
}

}  // namespace
}  // namespace hp::test

// What follows from a job's files alone, for every node of a table.
#include "scheduler/plan/job_plan.h"

#include "scheduler/plan/main_accuracy.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

#include <map>
#include <tuple>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPlannedNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 4 kernel_size: 3 } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 50 } }
    layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 7 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })";
constexpr int64_t kPooled = 4 * 3 * 3;  // of one sample

class JobPlanTest : public testing::Test {
 protected:
  StatusOr<std::unique_ptr<JobPlan>> Make(const std::string& solver = "max_iter: 10 test_iter: 2 test_interval: 5") {
    JobPlan::Options options;
    options.table = &table_;
    options.solver = Parse<caffe::SolverParameter>(solver);
    options.net = std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(net_));
    options.samples = {sample_, sample_, test_sample_};
    return JobPlan::Create(options);
  }

  /// `text` with the first `what` replaced.
  static std::string With(std::string text, const std::string& what, const std::string& by) {
    return text.replace(text.find(what), what.size(), by);
  }

  std::string net_ = kPlannedNet;
  Shape sample_ = {1, 8, 8}, test_sample_ = {1, 8, 8};  // of training and the first test, and of the second
  RoutingTable table_ = MakeTable(kTable);              // conv replicas 0 and 1; shard 1 is rank 2, shard 0 rank 3
};

TEST_F(JobPlanTest, WhatOneNodeWritesAnotherReads) {
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  for (bool train : {true, false}) {
    std::map<std::tuple<Rank, Rank, uint32_t>, int64_t> leaving, landing;  // from, to, channel: bytes of a row
    for (Rank rank = 0; rank < table_.size(); ++rank) {
      for (const PortPlan& port : (*job)->node(rank, train ? caffe::TRAIN : caffe::TEST).ports()) {
        for (Rank peer : port.peers) {
          auto& ends = port.landing ? landing : leaving;
          const auto key = port.landing ? std::tuple(peer, rank, port.channel) : std::tuple(rank, peer, port.channel);
          EXPECT_TRUE(ends.emplace(key, port.row_bytes).second) << "a port twice";
        }
      }
    }
    EXPECT_EQ(leaving, landing);
    EXPECT_EQ((leaving.at({0, 3, 0})), kPooled * 4) << "all of pool1 from replica 0 to shard 0";
    EXPECT_EQ((leaving.at({3, 2, 2})), 25 * 4) << "half of ip1 from shard 0 to shard 1";
    EXPECT_EQ(leaving.contains({3, 0, 1}), train) << "a gradient comes back in training alone";
  }
}

TEST_F(JobPlanTest, ASegmentEndsWhereShardsGather) {
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->node(0, caffe::TRAIN).segments(), 1);
  for (Rank shard : {2, 3}) {
    const NodePlan& node = (*job)->node(shard, caffe::TRAIN);
    EXPECT_EQ(node.segments(), 3) << "ip1; ip2 of all of ip1 and what is said of its classes; the loss";
    for (int segment = 0; segment < 3; ++segment) EXPECT_EQ(node.reads_labels(segment), segment > 0);
  }
  EXPECT_TRUE((*job)->node(0, caffe::TRAIN).reads_images());
  EXPECT_EQ((*job)->reporter(), 3);
}

TEST_F(JobPlanTest, EveryParameterIsOwnedOnce) {
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  for (const ParamOwners& param : (*job)->params()) {
    int64_t owned = 0;
    for (const auto& slice : param.slices) owned += slice.block.count();
    EXPECT_EQ(owned, param.spec.shape.count()) << param.layer << "." << param.blob;
  }
  const ParamOwners& ip2 = (*job)->params()[4];
  ASSERT_EQ(ip2.layer, "ip2");
  ASSERT_EQ(ip2.slices.size(), 2u);
  EXPECT_EQ(ip2.slices[0].owner, 3) << "shard 0";
  EXPECT_EQ(ip2.slices[0].block, (Block{0, 3, 0, 50}));
  EXPECT_EQ(ip2.slices[1].block, (Block{3, 7, 0, 50}));
  EXPECT_EQ((*job)->params()[0].slices[0].owner, 0) << "of replicas the first one";
}

TEST(ScheduleTest, SharesOfAPhaseAreDisjointAndTogetherAllOfIt) {
  JobShape shape;
  shape.replicas = 2;
  shape.micro_batches = 3;
  shape.iter_size = 2;
  shape.train_batch = 9;
  shape.max_iter = 5;
  const Schedule schedule(shape);
  const std::vector<MsgId> all = schedule.TrainIds(4);
  ASSERT_EQ(all.size(), 12u);
  for (int of : {1, 2, 4, 6}) {
    std::set<MsgId> seen;
    for (int index = 0; index < of; ++index) {
      const std::vector<MsgId> ids = schedule.TrainIds(4, {of, index});
      EXPECT_EQ(ids.size(), all.size() / of);
      EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
      seen.insert(ids.begin(), ids.end());
    }
    EXPECT_EQ(seen.size(), all.size()) << of;
  }
  for (MsgId id : schedule.TrainIds(4, schedule.ReadBy(1))) EXPECT_EQ(id.replica(), 1);
}

TEST_F(JobPlanTest, APipelineGoesByItsPart) {
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  const PipelinePlan conv = (*job)->pipeline(1), shard = (*job)->pipeline(3);
  EXPECT_EQ(conv.share, (IdShare{2, 1}));
  EXPECT_EQ(shard.share, IdShare());
  ASSERT_EQ(conv.groups.size(), 1u);
  EXPECT_TRUE(conv.groups[0].in_backward && conv.groups[0].exchange == GroupExchange::kSum && conv.ordered_backward);
  EXPECT_FALSE(conv.groups[0].counts) << "replica 0 counts the squares";
  EXPECT_TRUE((*job)->pipeline(0).groups[0].counts);
  ASSERT_EQ(shard.groups.size(), 2u);
  EXPECT_FALSE(shard.groups[0].exchange != GroupExchange::kNone || shard.groups[0].in_backward);
  EXPECT_THAT(shard.phases[0][0].backward, ElementsAre(true, true, true));
  EXPECT_THAT(shard.phases[1][0].backward, ElementsAre(false, false, false));
}

// Only the host carries tasks out between the layers of others (Executor), and simulations go by the same plan.
TEST_F(JobPlanTest, AShardBesideAReplicaIsUrgentOnACpuAlone) {
  const std::string table = R"(
      solver: "s.prototxt"
      stage { name: "conv" kind: CONV to_layer: "pool1" }
      stage { name: "fc" kind: FC from_layer: "ip1" }
      node { name: "a" stage: 0 index: 0 host: "h0" port: 29500 part { stage: 1 index: 0 } }
      node { name: "b" stage: 0 index: 1 host: "h1" port: 29500 DEVICE })";
  const auto urgent = [&](const std::string& device, Rank rank) {
    table_ = MakeTable(With(With(table, "DEVICE", device), "part {", device + " part {"));
    const auto job = Make();
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? (*job)->pipeline(rank).phases[0][0].urgent : std::vector<bool>();
  };
  EXPECT_THAT(urgent("", 0), ElementsAre(false, true));
  EXPECT_THAT(urgent("", 1), ElementsAre());
  EXPECT_THAT(urgent("device: 'cuda:0'", 0), ElementsAre());
}

// Rows to keep: 8 x (36 + 25) of ip1 are fewer than its 36 x 25 weights; 8 x (50 + 3) of ip2 are more than 50 x 3.
TEST_F(JobPlanTest, ALayerIsDeferredWhereItsRowsAreSmallerThanItsGradient) {
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  const PipelinePlan shard = (*job)->pipeline(3);
  EXPECT_TRUE(shard.groups[0].deferred);
  EXPECT_FALSE(shard.groups[1].deferred);
  EXPECT_FALSE((*Make("max_iter: 10 iter_size: 2"))->pipeline(3).groups[0].deferred) << "twice the rows";
}

TEST_F(JobPlanTest, ABatchThatCannotBeDividedIsRefused) {
  RoutingTableConfig config = table_.config();
  config.set_micro_batches(5);
  table_ = *RoutingTable::Create(config, "/job/table.prototxt");
  const auto job = Make();
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(job.status().message(),
              HasSubstr("a batch of 8 samples can't be divided over 2 replicas with 5 micro-batches each"));
}

TEST_F(JobPlanTest, ParametersOfATestAloneAreRefused) {
  net_ = With(kPlannedNet, R"(layer { name: "relu1")", R"(
    layer { name: "extra" type: "InnerProduct" bottom: "ip1" top: "extra" include { phase: TEST }
            inner_product_param { num_output: 3 } }
    layer { name: "relu1")");
  EXPECT_THAT(Make().status().message(), HasSubstr("layer \"extra\": has parameters in phase TEST alone"));
  EXPECT_TRUE(Make("max_iter: 10").ok()) << "nobody tests";
  net_ = With(kPlannedNet, R"(layer { name: "ip2")", R"(
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" include { phase: TEST }
            inner_product_param { num_output: 9 } }
    layer { include { phase: TRAIN } name: "ip2")");
  EXPECT_EQ(Make().status().message(),
            "layer \"ip2\": blob 0 has the shape [9 50] in phase TEST; in phase TRAIN it has [7 50]");
}

// The first test has an accuracy and the loss of training, the second a loss of its own, smaller batches of larger
// images, and fewer samples in a batch than there are replicas and micro-batches.
constexpr char kTwoTests[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 }
            include { phase: TRAIN } include { phase: TEST not_stage: "hpnode-test-1" } }
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "y" batch_size: 3 }
            include { phase: TEST stage: "hpnode-test-1" } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 4 kernel_size: 3 } }
    layer { name: "half" type: "Pooling" bottom: "conv1" top: "half" pooling_param { kernel_size: 2 stride: 2 }
            include { phase: TEST stage: "hpnode-test-1" } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 }
            include { phase: TRAIN } include { phase: TEST not_stage: "hpnode-test-1" } }
    layer { name: "pool1" type: "Pooling" bottom: "half" top: "pool1" pooling_param { kernel_size: 2 stride: 2 }
            include { phase: TEST stage: "hpnode-test-1" } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 50 } }
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 7 } }
    layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
            include { phase: TEST not_stage: "hpnode-test-1" } }
    layer { name: "hinge" type: "HingeLoss" bottom: "ip2" bottom: "label" top: "hinge"
            include { phase: TEST stage: "hpnode-test-1" } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss"
            include { phase: TRAIN } include { phase: TEST not_stage: "hpnode-test-1" } })";

TEST_F(JobPlanTest, EachTestIsAPhaseOfItsOwn) {
  net_ = kTwoTests;
  test_sample_ = {1, 14, 14};
  const auto made = Make("max_iter: 10 test_iter: 2 test_iter: 3 test_interval: 5");
  ASSERT_TRUE(made.ok()) << made.status();
  const JobPlan& job = **made;
  const Phase first = Phase::OfTest(0), second = Phase::OfTest(1);
  EXPECT_THAT(job.phases(), ElementsAre(Phase(caffe::TRAIN), first, second));
  const auto outputs = [&job](Phase phase) {
    std::vector<std::string> names;
    for (const WholeOutput& output : job.outputs(phase)) names.push_back(output.blob);
    return names;
  };
  EXPECT_THAT(outputs(caffe::TRAIN), ElementsAre("loss"));
  EXPECT_THAT(outputs(first), ElementsAre("accuracy", "loss"));
  EXPECT_THAT(outputs(second), ElementsAre("hinge"));
  EXPECT_EQ(job.node(0, first).sample(), sample_);
  EXPECT_EQ(job.node(0, second).sample(), test_sample_);
  EXPECT_EQ(job.schedule().shape().batch(second), 3);
  EXPECT_THAT(job.schedule().RowCounts(second), ElementsAre(1));
  const std::vector<MsgId> ids = job.schedule().TestIds(5);
  ASSERT_EQ(ids.size(), 2u * 4 + 3 * 3) << "a micro-batch of each batch of the second has no sample";
  const PipelinePlan shard = job.pipeline(3);
  ASSERT_EQ(shard.phases.size(), 3u);
  for (size_t i = 0; i < ids.size(); ++i) {
    const Phase phase = i < 8 ? first : second;
    EXPECT_EQ(job.schedule().PhaseOf(ids[i]), phase);
    EXPECT_EQ(&shard.phase(ids[i]), &shard.phases[phase.index()][0]);
  }
}

TEST_F(JobPlanTest, TheAccuracyIsThatOfTheLastClassifier) {
  const auto accuracy = [this](const std::string& layers) {
    net_ = kPlannedNet + layers;
    const auto job = Make();
    EXPECT_TRUE(job.ok()) << job.status();
    const int output = MainAccuracy(**job, caffe::TEST);
    return output < 0 ? "" : (*job)->outputs(caffe::TEST)[output].blob;
  };
  const auto layer = [](const std::string& top, const std::string& bottom, int top_k) {
    return "layer { name: \"" + top + "\" type: \"Accuracy\" bottom: \"" + bottom + "\" bottom: \"label\" top: \"" +
           top + "\" accuracy_param { top_k: " + std::to_string(top_k) + " } }";
  };
  const std::string sum =
      R"(layer { name: "sum" type: "Reduction" bottom: "ip1" top: "asum" reduction_param { axis: 1 } }
         layer { name: "total" type: "Reduction" bottom: "ip1" top: "a_sum" })";
  EXPECT_EQ(accuracy(""), "");
  EXPECT_EQ(accuracy(sum), "");
  EXPECT_EQ(accuracy(sum + layer("z", "ip2", 1)), "z");
  EXPECT_EQ(accuracy(layer("a", "ip1", 1) + layer("c", "ip2", 1) + layer("b", "ip2", 5)), "c");
  EXPECT_EQ(accuracy(layer("a", "ip1", 1) + layer("b", "ip2", 5) + layer("c", "ip2", 1)), "c");
  EXPECT_EQ(accuracy(layer("c", "ip2", 1) + layer("a", "ip1", 5)), "a");
  EXPECT_EQ(accuracy(layer("c", "ip2", 1) + layer("a", "ip1", 1) + layer("b", "ip2", 5)), "c");
}

TEST_F(JobPlanTest, ParametersOfASecondTestAlone) {
  net_ = With(kTwoTests, R"(layer { name: "accuracy")", R"(
    layer { name: "extra" type: "InnerProduct" bottom: "ip1" top: "extra" inner_product_param { num_output: 3 }
            include { phase: TEST stage: "hpnode-test-1" } }
    layer { name: "accuracy")");
  test_sample_ = {1, 14, 14};
  EXPECT_THAT(Make("max_iter: 10 test_iter: 2 test_iter: 3 test_interval: 5").status().message(),
              HasSubstr("layer \"extra\": has parameters in phase TEST (#1) alone"));
  EXPECT_TRUE(Make().ok()) << "nobody tests with it";
}

// `between` is in front of the boundary in training, and behind it in a test.
TEST_F(JobPlanTest, ATestReadsParametersWhereTrainingHasThem) {
  net_ = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
    layer { name: "between" type: "InnerProduct" bottom: "data" top: "between" inner_product_param { num_output: 64 }
            include { phase: TRAIN } }
    layer { name: "pool1" type: "ReLU" bottom: "between" top: "pool1" include { phase: TRAIN } }
    layer { name: "pool1" type: "ReLU" bottom: "data" top: "pool1" include { phase: TEST } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 64 } }
    layer { name: "between" type: "InnerProduct" bottom: "ip1" top: "between" inner_product_param { num_output: 64 }
            include { phase: TEST } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" })";
  EXPECT_THAT(Make().status().message(),
              HasSubstr("layer \"between\": in phase TEST node \"fc1\" needs a part of blob 0 that it does not have in "
                        "phase TRAIN"));
}

TEST_F(JobPlanTest, ABatchPerReplicaIsOneOfTraining) {
  table_ = MakeTable(std::string(kTable) + "batch: PER_REPLICA");
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->schedule().shape().batch(caffe::TRAIN), 16) << "of 2 replicas";
  EXPECT_EQ((*job)->schedule().shape().batch(caffe::TEST), 8) << "as many records are tested, whoever tests them";
}

TEST_F(JobPlanTest, SamplesThatCannotBeCountedAreRefused) {
  net_ = With(kPlannedNet, "batch_size: 8", "batch_size: 2147483647");
  const auto counted = Make("max_iter: 2147483647");
  EXPECT_TRUE(counted.ok()) << counted.status();
  const auto job = Make("max_iter: 2147483647 iter_size: 2");
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.status().message(),
            "/job/table.prototxt: the training (max_iter x iter_size) has 4294967294 batches of 2147483647 samples; "
            "expected less than 2^62 samples in all");
  const auto tests = Make("max_iter: 1 test_interval: 1 test_iter: 2147483647");
  EXPECT_TRUE(tests.ok()) << tests.status();
}

TEST_F(JobPlanTest, SamplesOfAShapeThatNobodyHasAreRefused) {
  for (const Shape& shape : {Shape{1 << 30, 1 << 30, 16}, Shape{-1, 8, 8}}) {
    sample_ = shape;
    const auto job = Make();
    ASSERT_FALSE(job.ok()) << shape;
    EXPECT_THAT(job.status().message(), HasSubstr("layer \"data\": 1 samples of shape [" + shape.ToString() + "]"));
  }
}

// The products of rows and dims pass 2^63; the rows are more than the gradient has elements.
TEST_F(JobPlanTest, DeferralOfManyRows) {
  net_ = With(With(kPlannedNet, "batch_size: 8", "batch_size: 2147483647"), "num_output: 50", "num_output: 2000000");
  const auto job = Make("max_iter: 10 iter_size: 200000");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE((*job)->pipeline(3).groups[0].deferred);
  EXPECT_FALSE((*job)->pipeline(3).groups[1].deferred);
}

TEST_F(JobPlanTest, APoolIsChosenWithoutListingItsIds) {
  net_ = With(kPlannedNet, "batch_size: 8", "batch_size: 2147483647");
  RoutingTableConfig config = table_.config();
  config.set_micro_batches(524288);
  table_ = *RoutingTable::Create(config, "/job/table.prototxt");
  const auto job = Make("max_iter: 10");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->pipeline(0).pool_size, 4);
  EXPECT_EQ((*Make("max_iter: 0"))->pipeline(0).pool_size, 1);
}

// --- Parameter servers

// conv1 has 4 x 9 weights and 4 biases, 20 of these 40 numbers each: 2.2 rows, and then nothing of the bias.
TEST_F(JobPlanTest, ServersHaveRowsOfAboutAsManyBytes) {
  table_ = MakeTable(kServedTable);
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  const std::vector<ServedParam>& served = (*job)->served(0);
  ASSERT_EQ(served.size(), 2u);
  ASSERT_EQ(served[0].slices.size(), 2u);
  EXPECT_EQ(served[0].slices[0].block, Block::Rows(served[0].param.spec.shape, 0, 2));
  EXPECT_EQ(served[0].slices[1].block, Block::Rows(served[0].param.spec.shape, 2, 4));
  ASSERT_EQ(served[1].slices.size(), 1u);
  EXPECT_EQ(served[1].slices[0].server, 1);
  EXPECT_EQ(served[1].slices[0].number, 2u);
  EXPECT_TRUE((*job)->served(1).empty());
}

TEST_F(JobPlanTest, ServersOwnWhatTheyUpdate) {
  table_ = MakeTable(kServedTable);
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  const ParamOwners& weights = (*job)->params()[0];
  ASSERT_EQ(weights.slices.size(), 2u);
  EXPECT_EQ(weights.slices[0].owner, 4) << "server 0 is rank 4";
  EXPECT_EQ(weights.slices[1].owner, 3);
  EXPECT_EQ((*job)->params()[1].slices[0].owner, 3);
  EXPECT_EQ((*job)->node(4, caffe::TRAIN).params().size(), 1u);
  EXPECT_EQ((*job)->node(3, caffe::TRAIN).params().size(), 2u);
  EXPECT_EQ((*job)->node(3, caffe::TEST).params().size(), 2u) << "tests have the same parameters";
}

TEST_F(JobPlanTest, ReplicasPushWhatServersUpdate) {
  table_ = MakeTable(kServedTable);
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  const PipelinePlan replica = (*job)->pipeline(0), server = (*job)->pipeline(3);
  ASSERT_EQ(replica.groups.size(), 1u);
  EXPECT_TRUE(replica.groups[0].exchange == GroupExchange::kPush && replica.groups[0].in_backward);
  EXPECT_FALSE(replica.groups[0].counts) << "the servers count the squares";
  ASSERT_EQ(server.groups.size(), 1u) << "weights and bias of a layer are a group";
  EXPECT_TRUE(server.groups[0].exchange == GroupExchange::kServe && server.groups[0].counts);
  EXPECT_EQ(server.groups[0].stage, 2);
  EXPECT_TRUE((*job)->schedule().TrainIds(0, server.share).empty()) << "no id passes a server";
  EXPECT_EQ((*job)->node(3, caffe::TRAIN).ports().size(), 0u);
}

// Two convolutions in front that share all, and two products behind that share their weights.
constexpr char kTwins[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { name: "w" } param { name: "b" }
            convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
    layer { name: "conv2" type: "Convolution" bottom: "data" top: "conv2" param { name: "w" } param { name: "b" }
            convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
    layer { name: "pool1" type: "Eltwise" bottom: "conv1" bottom: "conv2" top: "pool1" }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" param { name: "v" }
            inner_product_param { num_output: 50 } }
    layer { name: "ip2" type: "InnerProduct" bottom: "pool1" top: "ip2" param { name: "v" lr_mult: 2 }
            inner_product_param { num_output: 50 } }
    layer { name: "sum" type: "Eltwise" bottom: "ip1" bottom: "ip2" top: "sum" }
    layer { name: "ip3" type: "InnerProduct" bottom: "sum" top: "ip3" inner_product_param { num_output: 5 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" })";

TEST_F(JobPlanTest, LayersThatShareAreOneGroupAndOneParameter) {
  net_ = kTwins;
  for (const char* table : {kTable, kServedTable}) {
    table_ = MakeTable(table);
    const auto job = Make();
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_EQ((*job)->params().size(), 7u) << "w, b, v, two biases, and two of ip3";
    EXPECT_EQ((*job)->params()[0].layer, "conv1");
    ASSERT_EQ((*job)->params()[0].users.size(), 1u);
    EXPECT_EQ((*job)->params()[0].users[0].layer, "conv2");
    EXPECT_EQ((*job)->params()[2].spec.lr_mult, 2);
    EXPECT_TRUE((*job)->params()[3].users.empty());
    EXPECT_EQ((*job)->parameter_bytes(), 4 * (2 * (4 * 9 + 4) + 2 * (50 * 256 + 50) + 5 * 50 + 5)) << "as in a file";
    const PipelinePlan replica = (*job)->pipeline(0);
    ASSERT_EQ(replica.groups.size(), 1u);
    EXPECT_THAT(replica.groups[0].layers, ElementsAre(1, 2));
    EXPECT_EQ(replica.groups[0].layer, 1) << "its backward pass comes last";
  }
  EXPECT_EQ((*Make())->node(4, caffe::TRAIN).params().size(), 1u);
  EXPECT_EQ((*Make())->pipeline(3).groups.size(), 1u) << "of a server";
  table_ = MakeTable(kTable);
  const PipelinePlan shard = (*Make())->pipeline(3);
  ASSERT_EQ(shard.groups.size(), 2u);
  EXPECT_TRUE(shard.groups[0].at_once()) << "what several layers add to is not deferred";
  EXPECT_THAT(shard.groups[0].layers, ElementsAre(4, 5));
}

TEST_F(JobPlanTest, ATestSharesWhatTheTrainingDoes) {
  net_ = With(kTwins, R"(layer { name: "ip2")", R"(
    layer { name: "ip2" type: "InnerProduct" bottom: "pool1" top: "ip2" include { phase: TEST }
            inner_product_param { num_output: 50 } }
    layer { include { phase: TRAIN } name: "ip2")");
  net_ = With(net_, R"(layer { name: "ip1")", R"(layer { include { phase: TRAIN } name: "ip1")");
  net_ = With(net_, R"(bottom: "ip1" bottom: "ip2")", R"(bottom: "ip2" bottom: "ip2")");
  const auto job = Make();
  ASSERT_TRUE(job.ok()) << job.status();
  const NodePlan& test = (*job)->node(3, caffe::TEST);
  ASSERT_FALSE(test.params().empty());
  EXPECT_EQ(test.params()[0].layer, "ip1") << "ip2's weights, under whatever name";
}

TEST_F(JobPlanTest, LayersThatShareMustBeInOneStage) {
  net_ = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
    layer { name: "pool1" type: "InnerProduct" bottom: "data" top: "pool1" param { name: "v" }
            inner_product_param { num_output: 64 } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" param { name: "v" }
            inner_product_param { num_output: 64 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" })";
  EXPECT_THAT(
      Make().status().message(),
      HasSubstr("layers \"pool1\" and \"ip1\" share the parameter \"v\", but are in stages \"conv\" and \"fc\" of "
                "the table; expected both in one stage"));
}

TEST_F(JobPlanTest, MoreServersThanRowsAreRefused) {
  std::string text = kServedTable;
  for (int index = 2; index < 9; ++index) {
    text += "node { name: 'ps" + std::to_string(index) + "' stage: 2 index: " + std::to_string(index) +
            " host: 'e' port: " + std::to_string(29500 + index) + " }";
  }
  table_ = MakeTable(text);
  const auto job = Make();
  EXPECT_EQ(job.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(job.status().message(), HasSubstr("would have no parameter of stage \"conv\"; expected fewer than 9"));
}

}  // namespace
}  // namespace hp

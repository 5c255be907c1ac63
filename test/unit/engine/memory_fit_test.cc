// What a node needs beside what there is, before anything is allocated.
#include "engine/memory_fit.h"

#include "node/make_exchange.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kOneNode[] = R"(
    solver: "s" micro_batches: 4 stage { kind: CONV } node { name: "n" stage: 0 host: "a" port: 1 POOL })";
constexpr char kSmallNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: BATCH } }
    layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: OUTPUTS } }
    layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 7 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })";

class MemoryFitTest : public testing::Test {
 protected:
  void Plan(const std::string& node = "", const std::string& batch = "64", const std::string& outputs = "5000") {
    table_ = MakeTable(With(kOneNode, "POOL", node));
    JobPlan::Options options;
    options.table = &*table_;
    options.solver = Parse<caffe::SolverParameter>(solver_);
    options.net = std::make_shared<const caffe::NetParameter>(
        Parse<caffe::NetParameter>(With(With(net_, "BATCH", batch), "OUTPUTS", outputs)));
    options.samples.assign(4, Shape{3, 8, 8});
    StatusOr<std::unique_ptr<JobPlan>> job = JobPlan::Create(options);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *std::move(job);
  }
  StatusOr<NodeMemory> Fit(int64_t bytes, size_t decoder = 0) {
    NodeModel::Options options;
    options.backend = backend_.get();
    const auto model = NodeModel::Create(job_, options);
    EXPECT_TRUE(model.ok()) << model.status();
    return FitMemory(**model, ExchangeHostBytes(**model), {bytes, "the host has free", "end other programs"}, decoder);
  }
  Status Planned(int64_t bytes) {
    return CheckPlannedMemory(*job_, 0, {bytes, "the host has free", "end other programs"});
  }
  static std::string With(std::string text, const std::string& what, const std::string& by) {
    return text.replace(text.find(what), what.size(), by);
  }

  std::string net_ = kSmallNet, solver_ = "max_iter: 10";
  std::optional<RoutingTable> table_;
  std::shared_ptr<const JobPlan> job_;
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(MemoryFitTest, EachTestHasImagesOfItsOwn) {
  solver_ = "max_iter: 10 test_interval: 5 test_iter: 2 test_iter: 1 test_iter: 3";
  Plan();
  EXPECT_EQ(Fit(AddressSpaceRoom().bytes)->images, (1 + 3) * 16 * 3 * 8 * 8 * sizeof(float));
}

TEST_F(MemoryFitTest, ThePoolGivesWayToTheHostsMemory) {
  Plan();
  const auto all = Fit(AddressSpaceRoom().bytes);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->pool_size, 4);
  EXPECT_EQ(all->images, 16 * 3 * 8 * 8 * sizeof(float)) << "of a micro-batch";
  const int64_t needed = static_cast<int64_t>(all->bytes() + all->image_bytes());
  EXPECT_EQ(Fit(needed)->pool_size, 4);
  EXPECT_EQ(Fit(needed - 1)->pool_size, 3) << "images are the host's memory, too";
  Plan("pool_size: 4");
  const auto fixed = Fit(needed - 1);
  ASSERT_FALSE(fixed.ok()) << "the table's pool is not changed";
  EXPECT_EQ(ExitStatus(fixed.status()), 2);
  EXPECT_THAT(fixed.status().message(), AllOf(HasSubstr("/job/table.prototxt: node n needs "),
                                              HasSubstr(" MB, the host has free "), HasSubstr("memory: parameters "),
                                              HasSubstr("a smaller batch_size"), HasSubstr("end other programs")));
}

TEST_F(MemoryFitTest, WholeImagesThatADeviceDecodesCountWhateverThePool) {
  Plan();
  const auto without = Fit(AddressSpaceRoom().bytes), with = Fit(AddressSpaceRoom().bytes, 1 << 20);
  EXPECT_EQ(with->bytes() - without->bytes(), size_t{1} << 20);
  const int64_t needed = static_cast<int64_t>(without->bytes() + without->image_bytes());
  EXPECT_EQ(Fit(needed)->pool_size, 4);
  const auto cut = Fit(needed, 100);
  EXPECT_EQ(cut->pool_size, 3);
  EXPECT_EQ(cut->device_only, 100u);
}

// Version by version: the message says how many, and how much they take.
TEST_F(MemoryFitTest, VersionsThatDoNotFitAreRefused) {
  Plan();
  const auto one = Fit(AddressSpaceRoom().bytes);
  ASSERT_TRUE(one.ok()) << one.status();
  Plan("} staleness: 4 #");
  const auto five = Fit(AddressSpaceRoom().bytes);
  ASSERT_TRUE(five.ok()) << five.status();
  EXPECT_EQ(five->versions, 5);
  EXPECT_GT(five->parameters, one->parameters + 3 * one->parameters / 3) << "of three copies, one is values";
  const int64_t room = static_cast<int64_t>(five->parameters);
  EXPECT_THAT(Fit(room).status().message(),
              AllOf(HasSubstr("/job/table.prototxt: node n needs "), HasSubstr(" (5 versions), ")));
  EXPECT_EQ(ExitStatus(Fit(room).status()), 2);
  EXPECT_THAT(Planned(static_cast<int64_t>(one->parameters)).message(), HasSubstr(" (5 versions), top of layer"));
}

// A sample's columns take memory, and the gradient of its rows; all classes of a batch take none.
TEST_F(MemoryFitTest, ASampleOfClassesIsAllThatTakesMemory) {
  constexpr size_t kAllLogits = sizeof(float) * 64 * 50'000;
  const auto memory_of = [this](const std::string& fields) {
    net_ = R"(
        layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: BATCH } }
        layer { name: "head" type: "InnerProduct" bottom: "data" top: "head" inner_product_param {
          num_output: OUTPUTS bias_term: false )" +
           fields + R"( } }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "head" bottom: "label" top: "loss" })";
    Plan("pool_size: 4", "64", "50000");
    NodeMemory memory = Fit(AddressSpaceRoom().bytes).value();
    memory.parameters = 0;
    EXPECT_TRUE(Planned(static_cast<int64_t>(memory.host_bytes(true)) + 2 * sizeof(float) * 192 * 50'000).ok());
    return memory.bytes();
  };
  EXPECT_GT(memory_of("normalize: true"), kAllLogits);
  EXPECT_LT(memory_of("normalize: true sample_rate: 0.02"), kAllLogits / 2);
}

TEST_F(MemoryFitTest, SumsDoNotWrap) {
  Plan("pool_size: 65536");
  NodeMemory memory = Fit(AddressSpaceRoom().bytes).value();
  memory.solver = size_t{1} << 47;
  EXPECT_GT(memory.bytes(), size_t{1} << 62);
  memory.solver = size_t{1} << 63;
  EXPECT_EQ(memory.bytes(), std::numeric_limits<size_t>::max());
  memory.images = size_t{1} << 63;
  EXPECT_EQ(memory.image_bytes(), std::numeric_limits<size_t>::max());
}

TEST_F(MemoryFitTest, WhatCannotFitIsRefusedFromThePlanAlone) {
  Plan();
  // Values and histories of [5000, 192] and [7, 5000] with biases, and 16 rows of 5000.
  const int64_t least = 2 * 4 * (5000 * 192 + 5000 + 7 * 5000 + 7) + 4 * 16 * 5000;
  EXPECT_TRUE(Planned(least).ok());
  EXPECT_EQ(Planned(least - 1).code(), StatusCode::kInvalidArgument);
  const size_t with_one = Fit(AddressSpaceRoom().bytes)->parameters;
  solver_ = "max_iter: 10 type: 'Adam'";
  Plan();
  const int64_t second = 4 * (5000 * 192 + 5000 + 7 * 5000 + 7);
  EXPECT_TRUE(Planned(least + second).ok());
  EXPECT_EQ(Planned(least + second - 1).code(), StatusCode::kInvalidArgument);
  EXPECT_GE(Fit(AddressSpaceRoom().bytes)->parameters, with_one + second);
  solver_ = "max_iter: 10";
  Plan("memory_mb: 7");
  EXPECT_THAT(Planned(AddressSpaceRoom().bytes).message(), HasSubstr("its memory_mb allows 7.3 MB"));
}

TEST_F(MemoryFitTest, NumbersThatNoHostCanHoldAreRefusedAtOnce) {
  Plan("", "2147483647", "2147483647");
  const Status status = CheckPlannedMemory(*job_, 0, AddressSpaceRoom());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no host has more than 140737488.4 MB"), HasSubstr("layer \"ip1\"")));
}

class HostMemoryTest : public MemoryFitTest {
 protected:
  /// Plans two replicas on one host. @param first, second fields of their entries.
  void PlanTwo(const std::string& first = "", const std::string& second = "") {
    const std::string node = R"( node { name: "m" stage: 0 index: 1 host: "a" port: 2 )";
    Plan(first + "}" + node + second);
  }
  Status Planned(int64_t bytes) { return CheckPlannedHostMemory(*job_, {0, 1}, {bytes, "it has", ""}); }
};

TEST_F(HostMemoryTest, NodesOfOneHostAreAddedUp) {
  PlanTwo();
  const std::vector<HostShare> shares = {{0, 3'000'000}, {1, 2'500'000}};
  EXPECT_TRUE(CheckHostMemory(*table_, shares, {5'500'000, "it has", ""}).ok());
  const Status status = CheckHostMemory(*table_, shares, {4'300'000, "this host has", "end other programs"});
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("/job/table.prototxt: the 2 nodes of host \"a\" need 5.5 MB together, this host has 4.3 MB: "
                      "1.2 MB too little; n 3.0 MB, m 2.5 MB; "),
            HasSubstr("or end other programs")));
  constexpr size_t kHuge = std::numeric_limits<size_t>::max();
  EXPECT_FALSE(CheckHostMemory(*table_, {{0, kHuge}, {1, kHuge}}, AddressSpaceRoom()).ok()) << "sums do not wrap";
}

TEST_F(HostMemoryTest, NodesOfOneHostAreAddedUpFromThePlanAlone) {
  PlanTwo();
  // Of each: values and histories of [5000, 192] and [7, 5000] with biases, and 8 rows of 5000.
  const int64_t each = 2 * 4 * (5000 * 192 + 5000 + 7 * 5000 + 7) + 4 * 8 * 5000;
  EXPECT_TRUE(Planned(2 * each).ok());
  EXPECT_EQ(Planned(2 * each - 1).code(), StatusCode::kInvalidArgument);
  PlanTwo("", "device: \"cuda:0\"");
  EXPECT_TRUE(Planned(each).ok()) << "a GPU has memory of its own";
  EXPECT_FALSE(Planned(each - 1).ok());
  PlanTwo("device: \"cuda:1\"", "device: \"cuda:0\"");
  EXPECT_TRUE(Planned(0).ok());
}

TEST_F(HostMemoryTest, TheExchangeOfReplicasCounts) {
  PlanTwo();
  const auto memory = Fit(AddressSpaceRoom().bytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  // Two places of a chunk, and a bucket of all parameters but one.
  EXPECT_EQ(memory->exchange, 2u * (256 << 10) + 4 * (5000 + 7 * 5000 + 7));
  EXPECT_THAT(memory->Describe(), HasSubstr(", exchange 0.7 MB"));
  Plan();
  EXPECT_EQ(Fit(AddressSpaceRoom().bytes)->exchange, 0u) << "one node";
}

TEST_F(HostMemoryTest, OfAGpuNodeImagesAndTheExchangeAlone) {
  NodeMemory memory;
  memory.parameters = 8192;
  memory.images = 100;
  memory.exchange = 7;
  EXPECT_EQ(memory.host_bytes(true), 8192u + 3 * 100 + 7);
  EXPECT_EQ(memory.host_bytes(false), 3u * 100 + 7);
}

}  // namespace
}  // namespace hp

// What precision: AUTO comes to, and which nodes cannot do BF16.
#include "scheduler/plan/job_precision.h"

#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace hp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Rank 0 convolves, and rank 1 has inner products alone, each on a device of the test's choice.
class JobPrecisionTest : public testing::Test {
 protected:
  void Plan(const std::string& conv_device, const std::string& fc_device) {
    table_ = MakeTable(
        "solver: 's' stage { kind: CONV to_layer: 'conv' } stage { kind: FC from_layer: 'ip' }"
        "node { name: 'c' stage: 0 host: 'a' port: 1 device: '" +
        conv_device +
        "' }"
        "node { name: 'f' stage: 1 host: 'b' port: 1 device: '" +
        fc_device + "' }");
    JobPlan::Options options;
    options.table = &*table_;
    options.solver = Parse<caffe::SolverParameter>("max_iter: 10");
    options.net = std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }"
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 2"
        "        kernel_size: 3 } }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { num_output: 3 } }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }"));
    options.samples.assign(1, Shape{3, 8, 8});
    StatusOr<std::unique_ptr<JobPlan>> job = JobPlan::Create(options);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *std::move(job);
  }
  RoutingTableConfig::Precision Chosen(const std::set<Rank>& lacking) const {
    return ChoosePrecision(*job_, [&](Rank rank) { return lacking.contains(rank); });
  }

  std::optional<RoutingTable> table_;
  std::unique_ptr<JobPlan> job_;
};

TEST_F(JobPrecisionTest, OnCpusConvolutionsDecide) {
  Plan("cpu", "cpu");
  EXPECT_EQ(Chosen({}), RoutingTableConfig::BF16);
  EXPECT_EQ(Chosen({1}), RoutingTableConfig::BF16);
  EXPECT_EQ(Chosen({0}), RoutingTableConfig::FP32);
}

TEST_F(JobPrecisionTest, OnGpusAllProductsDecide) {
  Plan("cpu", "cuda:0");
  EXPECT_EQ(Chosen({1}), RoutingTableConfig::FP32);
  EXPECT_EQ(Chosen({}), RoutingTableConfig::BF16);
}

TEST_F(JobPrecisionTest, ANodeThatCannotIsNamed) {
  Plan("cpu", "cpu");
  EXPECT_TRUE(CheckPrecision(*job_, 0, RoutingTableConfig::BF16, "").ok());
  EXPECT_TRUE(CheckPrecision(*job_, 1, RoutingTableConfig::BF16, "it is old").ok());
  EXPECT_TRUE(CheckPrecision(*job_, 0, RoutingTableConfig::FP16, "it is old").ok());
  const Status status = CheckPrecision(*job_, 0, RoutingTableConfig::BF16, "it is old");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("node \"c\" can't compute layer \"conv\""), HasSubstr("it is old"),
                                      HasSubstr("FP32, and AUTO")));
}

TEST(PrecisionAlone, IsWhatTheDeviceCan) {
  const auto alone = [](RoutingTableConfig::Precision wanted, const char* lacks) {
    return PrecisionAlone(wanted, "cpu", lacks);
  };
  EXPECT_EQ(*alone(RoutingTableConfig::AUTO, ""), RoutingTableConfig::BF16);
  EXPECT_EQ(*alone(RoutingTableConfig::AUTO, "it is old"), RoutingTableConfig::FP32);
  EXPECT_EQ(*alone(RoutingTableConfig::BF16, ""), RoutingTableConfig::BF16);
  EXPECT_EQ(*alone(RoutingTableConfig::FP32, "it is old"), RoutingTableConfig::FP32);
  EXPECT_EQ(alone(RoutingTableConfig::BF16, "it is old").status().message(),
            "device \"cpu\" can't compute with precision: BF16: it is old; it can with FP32");
}

}  // namespace
}  // namespace hp

#include "scheduler/planner/layer_time.h"

#include "proto/planning.pb.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr char kTimes[] = R"(
    net: "small" host: "a" threads: 2 sample: [1, 8, 8]
    layer { layer: "conv1" timing { rows: 8 forward_ns: 8000 input_gradient_ns: 16000 } }
    layer { layer: "ip1" timing { rows: 1 forward_ns: 1100 weight_gradient_ns: 10 }
                         timing { rows: 10 forward_ns: 2000 weight_gradient_ns: 20 }
                         timing { rows: 100 forward_ns: 20000 weight_gradient_ns: 30 } })";

StatusOr<Profile> MakeProfile(const std::string& text) {
  return Profile::Create(Parse<ProfileConfig>(text), "p.prototxt");
}

LayerCost Product(const std::string& name) {
  LayerCost cost;
  cost.layer = name;
  cost.products = 1000;
  cost.in_bytes = 40;
  cost.out_bytes = 10;
  cost.parameter_bytes = cost.learned_bytes = 4000;
  cost.learns = true;
  cost.input_gradient = true;
  return cost;
}

TEST(LayerTimeTest, FewRowsAreBoundByTheWeightsAndManyByTheProducts) {
  const std::vector<LayerCost> costs = {Product("ip1")};
  const LayerTimes times(costs, {.flops = 1e6, .bytes_per_second = 1e5, .calls_per_second = 1e12});
  EXPECT_NEAR(times.Seconds(0, Pass::kForward, 1), (4000 + 50) / 1e5, 1e-9);
  EXPECT_NEAR(times.Seconds(0, Pass::kWeightGradient, 1), (8000 + 50) / 1e5, 1e-9) << "read and written";
  EXPECT_NEAR(times.Seconds(0, Pass::kForward, 1000), 2 * 1000 * 1000 / 1e6, 1e-9);
  EXPECT_NEAR(times.Seconds(0, Pass::kForward, 1000, 0.25), 0.25 * 2 * 1000 * 1000 / 1e6, 1e-9);
  EXPECT_NEAR(times.UpdateSeconds(0, 0.5), 6 * 2000 / 1e5, 1e-9);
}

TEST(LayerTimeTest, AProfileIsReadAlongLines) {
  const auto profile = MakeProfile(kTimes);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_NEAR(profile->Seconds("conv1", Pass::kForward, 16), 16e-6, 1e-12);
  EXPECT_NEAR(profile->Seconds("ip1", Pass::kForward, 5.5), 1.55e-6, 1e-12);
  EXPECT_NEAR(profile->Seconds("ip1", Pass::kForward, 200), 40e-6, 1e-12);
  EXPECT_FALSE(profile->Has("ip2"));
}

TEST(LayerTimeTest, AProfileReplacesCountsOfItsLayersAlone) {
  const std::vector<LayerCost> costs = {Product("ip1"), Product("ip2")};
  const auto profile = MakeProfile(kTimes);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const ComputeSpeed speed{.flops = 1e6, .bytes_per_second = 1e9, .calls_per_second = 1e12};
  const LayerTimes times(costs, speed, &*profile, 3);
  EXPECT_NEAR(times.Seconds(0, Pass::kForward, 10, 0.5), 3 * 0.5 * 2000e-9, 1e-12);
  EXPECT_NEAR(times.Seconds(1, Pass::kForward, 10), 2 * 10 * 1000 / 1e6, 1e-9);
}

TEST(LayerTimeTest, FaultsOfAProfile) {
  EXPECT_THAT(MakeProfile("layer { layer: 'a' }").status().message(), HasSubstr("threads is 0; expected at least 1"));
  EXPECT_THAT(MakeProfile("threads: 1 layer { layer: 'a' }").status().message(),
              HasSubstr("layer \"a\" has no timing"));
  EXPECT_THAT(MakeProfile("threads: 1 layer { layer: 'a' timing { rows: 2 } timing { rows: 2 } }").status().message(),
              HasSubstr("rows: 2; expected more than 2"));
  EXPECT_THAT(MakeProfile("threads: 1 layer { layer: 'a' timing { rows: 2 forward_ns: -1 } }").status().message(),
              HasSubstr("-1 ns; expected at least 0"));
  const std::string twice = "layer { layer: 'a' timing { rows: 1 } } ";
  EXPECT_THAT(MakeProfile("threads: 1 " + twice + twice).status().message(), HasSubstr("layer \"a\" appears twice"));
}

TEST(LayerTimeTest, AProfileOfAnotherNetOrOtherSamplesIsRefused) {
  const auto net = Parse<caffe::NetParameter>(kJobNet);
  ProfileConfig config = Parse<ProfileConfig>(kTimes);
  caffe::NetParameter elsewhere = net;
  for (caffe::LayerParameter& layer : *elsewhere.mutable_layer()) layer.add_place("/other/net.prototxt:1");
  EXPECT_EQ(ProfileHash(elsewhere), ProfileHash(net));
  config.set_net_hash(ProfileHash(net));
  const auto profile = Profile::Create(config, "p.prototxt");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->CheckNet(net, {1, 8, 8}).ok());
  EXPECT_THAT(profile->CheckNet(net, {1, 9, 9}).message(), HasSubstr("for samples of [1 8 8], not of [1 9 9]"));
  caffe::NetParameter other = net;
  other.mutable_layer(0)->mutable_data_param()->set_batch_size(64);
  other.mutable_layer(0)->mutable_data_param()->set_source("elsewhere");
  EXPECT_TRUE(profile->CheckNet(other, {1, 8, 8}).ok()) << "the batch changes no time of a layer";
  other.mutable_layer(1)->mutable_convolution_param()->set_num_output(5);
  EXPECT_THAT(profile->CheckNet(other, {1, 8, 8}).message(), HasSubstr("p.prototxt is a profile of another net"));
}

}  // namespace
}  // namespace hp

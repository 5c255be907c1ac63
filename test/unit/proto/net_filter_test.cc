#include "proto/net_filter.h"

#include "proto/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using ::testing::ElementsAre;

caffe::NetParameter Net(const std::string& text) {
  caffe::NetParameter net;
  const Status status = ParseTextProto(text, "net", &net);
  EXPECT_TRUE(status.ok()) << status.message();
  return net;
}

std::vector<std::string> Names(const caffe::NetParameter& net) {
  std::vector<std::string> names;
  for (const auto& layer : net.layer()) names.push_back(layer.name());
  return names;
}

TEST(NetFilterTest, IncludeAndExcludeByPhase) {
  const caffe::NetParameter net = Net(R"(
      layer { name: "both" }
      layer { name: "train" include { phase: TRAIN } }
      layer { name: "test" include { phase: TEST } }
      layer { name: "not_test" exclude { phase: TEST } }
      layer { name: "phase_is_no_rule" phase: TEST }
      layer { name: "either" include { phase: TRAIN } include { phase: TEST } })");
  EXPECT_THAT(Names(FilterNet(net, caffe::TRAIN)),
              ElementsAre("both", "train", "not_test", "phase_is_no_rule", "either"));
  EXPECT_THAT(Names(FilterNet(net, caffe::TEST)), ElementsAre("both", "test", "phase_is_no_rule", "either"));
  EXPECT_THAT(LayersOf(net, caffe::TEST), ElementsAre(0, 2, 4, 5));
  EXPECT_EQ(FilterNet(net, caffe::TEST).state().phase(), caffe::TEST);
}

TEST(NetFilterTest, LevelsAndStagesAllHaveToHold) {
  const caffe::NetParameter net = Net(R"(
      state { level: 2 stage: "deploy" stage: "fast" }
      layer { name: "low" include { max_level: 1 } }
      layer { name: "high" include { min_level: 2 } }
      layer { name: "between" include { min_level: 1 max_level: 3 phase: TRAIN } }
      layer { name: "one_stage" include { stage: "fast" } }
      layer { name: "two_stages" include { stage: "fast" stage: "slow" } }
      layer { name: "not_stage" include { not_stage: "deploy" } }
      layer { name: "no_rule_in_it" include { } }
      layer { name: "excluded" exclude { phase: TEST } exclude { stage: "deploy" not_stage: "slow" } })");
  EXPECT_THAT(Names(FilterNet(net, caffe::TRAIN)), ElementsAre("high", "between", "one_stage", "no_rule_in_it"));
  EXPECT_THAT(Names(FilterNet(net, caffe::TEST)), ElementsAre("high", "one_stage", "no_rule_in_it"));
}

}  // namespace
}  // namespace hp

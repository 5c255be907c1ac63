#include "scheduler/planner/node_time.h"

#include "test/support/small_job.h"

#include <gmock/gmock.h>

namespace hp {
namespace {

// conv1 and pool1 on two replicas, ip1 and ip2 on two shards (kTable, kJobNet).
class NodeTimeTest : public testing::Test {
 protected:
  static constexpr double kProducts = 1e6;  // multiply-adds in a second

  const NodePlan& NodeOf(Rank rank) { return job_->node(rank, caffe::TRAIN); }

  const RoutingTable table_ = MakeTable(kTable);
  const std::unique_ptr<JobPlan> job_ = SmallJob(table_);
  const std::vector<LayerCost> costs_ = CostsOf(job_->graph(caffe::TRAIN), job_->shapes(caffe::TRAIN));
  // Bytes are free, so that products alone count.
  const LayerTimes times_{costs_, {.flops = 2 * kProducts, .bytes_per_second = 1e30, .calls_per_second = 1e30}};
};

TEST_F(NodeTimeTest, AReplicaComputesItsRowsAndAllGradientsOfThemAtOnce) {
  const NodeTimes node(NodeOf(0), times_);
  constexpr double kConv = 4 * 9 * 36;
  EXPECT_NEAR(node.Forward(0, 2), 2 * kConv / kProducts, 1e-9);
  EXPECT_NEAR(node.Backward(0, 2), 2 * kConv / kProducts, 1e-9) << "of the weights alone: images have no gradient";
  for (int layer : NodeOf(0).learning_layers()) EXPECT_EQ(node.WeightGradient(layer, 2), 0);
}

TEST_F(NodeTimeTest, AShardComputesItsPart) {
  double forward = 0, weights = 0;
  for (Rank shard : {2, 3}) {
    const NodeTimes node(NodeOf(shard), times_);
    for (int segment = 0; segment < NodeOf(shard).segments(); ++segment) forward += node.Forward(segment, 1);
    for (int layer : NodeOf(shard).learning_layers()) {
      const bool deferred = NodeOf(shard).layers()[layer].deferred;
      weights += deferred ? node.Update(layer) / 8 : node.WeightGradient(layer, 1);
    }
  }
  constexpr double kBoth = 36 * 50 + 50 * 7;  // 36: pool1
  EXPECT_NEAR(forward, kBoth / kProducts, 1e-9) << "both shards together: all of ip1 and ip2";
  EXPECT_NEAR(weights, kBoth / kProducts, 1e-9);
}

TEST_F(NodeTimeTest, AnUpdateTouchesSixTimesTheBytes) {
  const LayerTimes bytes(costs_, {.flops = 1e30, .bytes_per_second = 100, .calls_per_second = 1e30});
  double seconds = 0;
  for (Rank shard : {2, 3}) {
    const NodeTimes node(NodeOf(shard), bytes);
    for (int i : NodeOf(shard).learning_layers()) {
      const LayerPlan& layer = NodeOf(shard).layers()[i];
      seconds += node.Update(i);
      if (layer.deferred) seconds -= bytes.Seconds(layer.layer, Pass::kWeightGradient, 8, node.share(i));
    }
  }
  EXPECT_NEAR(seconds, 6 * 4 * (36 * 50 + 50 + 50 * 7 + 7) / 100.0, 1e-6);
}

}  // namespace
}  // namespace hp

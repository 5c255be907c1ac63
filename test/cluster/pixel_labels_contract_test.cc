// The contract for a label for each pixel: a loss counts the labels of the whole global batch that are not ignored,
// however unevenly they lie on the replicas.
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

using testing::HasSubstr;

class PixelLabelsTest : public ContractTest {
 protected:
  static std::string ErrorOf(const PixelHead& head, const ClusterSpec& table = {}) {
    const ClusterResult result = TrainCluster(table, SolverOfPixels(head));
    EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
    return result.status.message();
  }
  static ClusterSpec Conv(int conv, int micro, int pool = 0, bool tcp = false) {
    ClusterSpec table;
    table.conv = conv, table.micro_batches = micro, table.pool_size = pool, table.tcp = tcp;
    return table;
  }
  /// The products on nodes of their own.
  static ClusterSpec Hybrid(int conv, const ClusterStage& deep, int micro, int pool) {
    ClusterSpec table;
    table.stages = {{"kind: CONV", conv}, deep};
    table.micro_batches = micro, table.pool_size = pool;
    return table;
  }
};

TEST_F(PixelLabelsTest, IgnoredOnesAreCountedOverTheWholeBatch) {
  ClusterSpec shares = Conv(3, 1, 0, true);
  shares.shares = {1, 2, 4};
  const std::string deep = "kind: FC layer: 'deep/*'";
  Check(SolverOfPixels({}), {Conv(2, 3, 1), shares, Hybrid(2, {deep, 2}, 2, 0), Hybrid(2, {deep, 1}, 3, 1),
                             Hybrid(2, {"kind: CONV layer: 'deep/*'", 1}, 2, 1)});
}

TEST_F(PixelLabelsTest, OtherNormalizations) {
  const std::string type = "type: 'SoftmaxWithLoss' ", deep = "kind: FC layer: 'deep/*'";
  const auto loss = [&](const std::string& fields, double base_lr) {
    PixelHead head;
    head.loss = type + "loss_param { " + fields + " }";
    head.base_lr = base_lr;
    return SolverOfPixels(head);
  };
  const std::vector<ClusterSpec> tables = {Hybrid(2, {deep, 2}, 2, 0)};
  Check(loss("ignore_label: 0 normalization: FULL", 0.2), tables);
  Check(loss("ignore_label: 0 normalization: BATCH_SIZE", 0.003), tables);
  Check(loss("ignore_label: 0 normalization: NONE", 0.0003), tables);
  Check(loss("", 0.1), tables);
}

TEST_F(PixelLabelsTest, EachLossCountsWhatItDoesNotIgnore) {
  PixelHead head;
  head.loss =
      "type: 'SoftmaxWithLoss' loss_param { ignore_label: 0 } } layer { name: 'other' top: 'other' bottom: "
      "'score' bottom: 'label' type: 'SoftmaxWithLoss' loss_weight: 0.2 loss_param { ignore_label: 1 }";
  Check(SolverOfPixels(head), {Conv(2, 3, 1), Hybrid(2, {"kind: FC layer: 'deep/*'", 2}, 2, 0)});
}

/// Wrong classes count for something.
TEST_F(PixelLabelsTest, AWeightForEachPairOfClasses) {
  std::string gains;
  for (int i = 0; i < 25; ++i) gains += " data: " + std::string(i % 6 == 0 ? "1" : i % 2 == 0 ? "0.1" : "0.05");
  PixelHead head;
  head.loss = "type: 'InfogainLoss' loss_param { ignore_label: 0 } infogain_loss_param { matrix {" + gains + " } }";
  Check(SolverOfPixels(head), {Hybrid(2, {"kind: FC layer: 'deep/*'", 2}, 2, 0)});
}

/// Targets of each element, in losses that take any numbers.
TEST_F(PixelLabelsTest, TargetsOfPixels) {
  PixelHead head;
  head.channels = 1;
  head.accuracy = "";
  head.loss = "type: 'EuclideanLoss' loss_weight: 0.05";
  Check(SolverOfPixels(head), {Conv(2, 3, 1), Hybrid(2, {"kind: FC layer: 'deep/*'", 2}, 2, 0)});
  head.labels = "min: -0.99 max: 1.999";
  head.loss = "type: 'SigmoidCrossEntropyLoss' loss_weight: 0.05";
  Check(SolverOfPixels(head), {Conv(2, 3, 1)});
}

TEST_F(PixelLabelsTest, SameBitsWhateverTheDelays) {
  CheckSameBits(Hybrid(2, {"kind: FC layer: 'deep/*'", 2}, 2, 1), SolverOfPixels({}), {3, 4});
}

TEST_F(PixelLabelsTest, WhatCannotBeIsRefused) {
  ClusterSpec elsewhere = Hybrid(2, {"kind: CONV layer: 'loss'", 1}, 1, 0);
  EXPECT_THAT(ErrorOf({.accuracy = ""}, elsewhere),
              HasSubstr("layer \"loss\": reads 72 labels of each row, which stay on the nodes that read the samples; "
                        "expected it in the first stage"));
  EXPECT_THAT(
      ErrorOf({.label_dims = "dim: 1 dim: 9 dim: 7"}),
      HasSubstr("layer \"loss\": labels have shape [1 1 9 7]; expected one for each of the 1 rows and 72 pixels"));
  EXPECT_THAT(
      ErrorOf({.accuracy = "", .labels = "min: 3 max: 9"}),
      testing::ContainsRegex("layer \"loss\", batch 0, rows from 0: label [5-8] \\(number [0-9]+\\) of row 0 is not "
                             "in 0..4"));
}

}  // namespace
}  // namespace hp::test

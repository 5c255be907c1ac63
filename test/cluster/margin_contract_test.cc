// The contract of a routing table for the head of a face or retrieval net: cosines by a normalised product, and a
// softmax loss with a margin over classes that lie on shards.
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

namespace hp::test {
namespace {

class MarginContractTest : public ContractTest {
 protected:
  /// @param classes 5: gradients are added micro-batch by micro-batch; 120: they wait for the whole update.
  static std::string MarginSolver(int classes, const std::string& extra = "", int iterations = 50) {
    return Solver(extra, false, iterations, 1,
                  {"normalize: true bias_term: false num_output: " + std::to_string(classes),
                   "margin_param { scale: 8 angle: 0.3 cosine: 0.1 }"});
  }
};

TEST_F(MarginContractTest, FewClasses) {
  Check(MarginSolver(5), {Table(1, {1}, 1, 0, false), Table(2, {1}, 3, 1, false), Table(1, {3}, 1, 0, false),
                          Table(2, {3}, 3, 1, false), Table(1, {2, 3}, 2, 1, true), Table(2, {}, 3, 0, false),
                          Split({{"ip3", SplitConfig::NONE}}, Table(2, {3}, 2, 0, false))});
}

// 7 shards are more than there are classes: the lead gathers them.
TEST_F(MarginContractTest, FewerClassesThanShards) { Check(MarginSolver(5), {Table(2, {7}, 2, 1, false)}); }

TEST_F(MarginContractTest, ClassesWhoseGradientWaitsForTheUpdate) {
  Check(MarginSolver(120), {Table(1, {1}, 3, 0, false), Table(1, {3}, 1, 1, false), Table(2, {3}, 3, 1, true),
                            Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {3}, 3, 0, false)),
                            Split({}, Table(2, {2, 3}, 2, 0, false), true)});
}

TEST_F(MarginContractTest, ClippedGradients) {
  Check(MarginSolver(120, "clip_gradients: 0.8"), {Table(2, {3}, 3, 1, false)});
}

TEST_F(MarginContractTest, SameTableTwiceGivesTheSameBits) {
  CheckSameBits(Table(2, {3}, 3, 1, false), MarginSolver(120, "", 8), {11});
}

TEST_F(MarginContractTest, CosinesAreNotSplitByInputs) {
  const ClusterResult result =
      TrainCluster(Split({{"ip3", SplitConfig::INPUTS}}, Table(1, {3}, 1, 0, false)), MarginSolver(5));
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status.message(),
              testing::HasSubstr("layer \"ip3\" (InnerProduct) can't be split by INPUTS; expected OUTPUTS or NONE"));
}

}  // namespace
}  // namespace hp::test

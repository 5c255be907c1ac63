// The contract of a routing table for a head that computes a sample of its classes: which ones is a function of seed,
// iteration, class and labels, so every table draws the same.
#include "backend/sampling_rule.h"
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

#include <set>

namespace hp::test {
namespace {

constexpr int kClasses = 120, kLabels = 5, kInputs = 130;
constexpr double kRate = 0.1;

class SampledContractTest : public ContractTest {
 protected:
  /// The fixture's net, which has 5 labels, behind features of which a tenth of 120 classes is computed.
  static std::string SampledSolver(const std::string& extra = "", int iterations = 50, bool cosines = true,
                                   int classes = kClasses, const std::string& rate = "0.1") {
    const std::string product = "bias_term: false num_output: " + std::to_string(classes) + " sample_rate: " + rate;
    if (!cosines) return Solver(extra, false, iterations, 1, {product, ""});
    return Solver(extra, false, iterations, 1, {"normalize: true " + product, "margin_param { scale: 8 angle: 0.3 }"});
  }
  /// Whether an update draws a class, by the rule alone.
  static bool IsDrawn(int64_t clock, int64_t label) {
    bool drawn = false;
    SamplingRule::Make(StreamKey(7, "ip3", "sample"), static_cast<float>(kRate))
        .Draw(static_cast<uint64_t>(clock), label, label + 1, [&](int64_t) { drawn = true; });
    return drawn;
  }
};

// 11 samples of an update's batches against a gradient of 60 rows: it waits for the whole update.
TEST_F(SampledContractTest, Cosines) {
  Check(SampledSolver(),
        {Table(1, {1}, 1, 0, false), Table(2, {1}, 3, 1, false), Table(1, {3}, 1, 0, false), Table(2, {3}, 3, 1, true),
         Table(1, {2, 3}, 2, 1, false), Split({{"ip3", SplitConfig::NONE}}, Table(2, {3}, 2, 0, false)),
         Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {3}, 3, 0, false))});
}

TEST_F(SampledContractTest, ReplicasExchangeTheGradientsOfASample) {
  Check(SampledSolver(), {Table(2, {}, 3, 0, false), Table(3, {}, 2, 1, true)});
}

TEST_F(SampledContractTest, Logits) {
  Check(SampledSolver("", 50, false),
        {Table(2, {3}, 3, 1, false), Table(2, {}, 2, 1, false), Table(1, {7}, 2, 0, true)});
}

// The gradient of so few classes is smaller than the rows of an update: it is added up batch by batch.
TEST_F(SampledContractTest, FewClasses) {
  Check(SampledSolver("", 50, true, 11, "0.4"), {Table(1, {1}, 3, 1, false), Table(2, {3}, 3, 1, true)});
}

TEST_F(SampledContractTest, UpdatesThatWaitForTheVerdict) {
  Check(SampledSolver("clip_gradients: 0.8"), {Table(2, {3}, 3, 1, false), Table(2, {}, 2, 0, false)});
  Check(SampledSolver("clip_gradients: 0.8", 50, true, 11, "0.4"), {Table(2, {3}, 3, 1, false)});
}

TEST_F(SampledContractTest, SameTableTwiceGivesTheSameBits) {
  CheckSameBits(Table(2, {3}, 3, 1, false), SampledSolver("", 8), {11});
  CheckSameBits(Table(2, {}, 3, 1, false), SampledSolver("", 8, false, 11, "0.4"), {12});
}

// Of the last of two iterations: what it neither draws nor has as a label keeps its bits, and what the first one drew
// takes no step of momentum.
TEST_F(SampledContractTest, OtherRowsKeepTheirBits) {
  for (const ClusterSpec& table : {ClusterSpec{}, Table(2, {3}, 2, 1, false), Table(2, {}, 2, 1, false)}) {
    SCOPED_TRACE(Describe(table));
    std::vector<std::vector<float>> weights;
    for (int iterations : {1, 2}) {
      const ClusterResult result = TrainCluster(table, SampledSolver("", iterations));
      ASSERT_TRUE(result.status.ok()) << result.status;
      weights.push_back(result.params.at("ip3.0"));
      ASSERT_EQ(weights.back().size(), size_t{kClasses * kInputs});
    }
    int kept = 0, drawn = 0, moved_before = 0;
    for (int label = kLabels; label < kClasses; ++label) {
      const auto row = [&](int iteration) { return weights[iteration].begin() + label * kInputs; };
      const bool same = std::equal(row(0), row(0) + kInputs, row(1));
      EXPECT_EQ(same, !IsDrawn(1, label)) << "class " << label;
      (same ? kept : drawn) += 1;
      moved_before += same && IsDrawn(0, label);
    }
    EXPECT_GT(kept, 80);
    EXPECT_GT(drawn, 2);
    EXPECT_GT(moved_before, 2);
  }
}

// A sample of all classes is not a sample: the layer is the one without the field.
TEST_F(SampledContractTest, ARateOfOneIsTheWholeLayer) {
  const ClusterSpec table = Table(2, {3}, 2, 0, false);
  const ClusterResult all = TrainCluster(table, SampledSolver("", 5, true, kClasses, "1"));
  const ClusterResult plain = TrainCluster(
      table, Solver("", false, 5, 1,
                    {"normalize: true bias_term: false num_output: 120", "margin_param { scale: 8 angle: 0.3 }"}));
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_EQ(all.params, plain.params);
}

TEST_F(SampledContractTest, AResumedJobDrawsWhatTheUndisturbedOneDraws) {
  for (ClusterSpec table : {Table(2, {3}, 3, 1, false), Table(2, {}, 2, 0, false)}) {
    SCOPED_TRACE(Describe(table));
    const std::string prefix = NewPrefix();
    const std::string solver = SampledSolver("snapshot: 6 snapshot_prefix: '" + prefix + "'", 12);
    const ClusterResult whole = TrainCluster(table, solver);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    table.resume = prefix + "_iter_6.solverstate";
    const ClusterResult resumed = TrainCluster(table, solver);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(resumed.params, whole.params);
  }
}

TEST_F(SampledContractTest, TablesThatCannotSample) {
  const auto refused = [](const ClusterSpec& table, const std::string& solver) {
    const ClusterResult result = TrainCluster(table, solver);
    EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
    return result.status.message();
  };
  EXPECT_THAT(refused(Split({{"ip3", SplitConfig::INPUTS}}, Table(1, {3}, 1, 0, false)), SampledSolver("", 5, false)),
              testing::HasSubstr("layer \"ip3\" (InnerProduct) can't be split by INPUTS; expected OUTPUTS or NONE"));
  EXPECT_THAT(
      refused(Table(1, {7}, 1, 0, false), SampledSolver("", 5, true, 5, "0.5")),
      testing::HasSubstr("layer \"ip3\": with sample_rate below 1 it and layer \"loss\" must be in one stage, of "
                         "at most as many shards as it has outputs"));
}

}  // namespace
}  // namespace hp::test

// Loss scaling: a scale that nothing overflows under changes no bit; where gradients overflow, an update is skipped on
// all nodes alike; a job that is resumed goes on with the scale that it had.
#include "checkpoint/snapshot.h"
#include "node/job_files.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/log_lines.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <regex>

namespace hp::test {
namespace {

// With this weight, gradients overflow from a loss scale of about 2^90 on.
constexpr double kHeavy = 0x1p40;

LossScaling Scaling(double initial, int growth_interval) {
  LossScaling scaling;
  scaling.set_initial(initial);
  scaling.set_growth_interval(growth_interval);
  return scaling;
}

ClusterSpec WithTwoThreads(ClusterSpec table) {
  table.threads = 2;
  return table;
}

ClusterSpec Scaled(ClusterSpec table, const LossScaling& scaling = {}) {
  table.precision = RoutingTableConfig::FP16;
  table.loss_scaling = scaling;
  return table;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What the snapshots of iterations 1 to `last` say of the scale after them; the first entry is `initial`.
std::vector<double> Scales(const std::string& prefix, double initial, int last) {
  std::vector<double> scales = {initial};
  for (int iteration = 1; iteration <= last; ++iteration) {
    const auto snapshot = ReadSnapshot(SnapshotStatePath(prefix, iteration));
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    scales.push_back(snapshot.ok() ? snapshot->manifest->loss_scaling().scale() : 0);
  }
  return scales;
}

/// Replaces the first `what` in the solver's net.
void EditNet(const std::string& solver, const std::string& what, const std::string& by) {
  std::string net = solver;
  net.replace(net.find("_solver"), 7, "_net");
  std::string text = ReadBytes(net);
  ASSERT_NE(text.find(what), std::string::npos) << what;
  WriteFile(net, text.replace(text.find(what), what.size(), by));
}

std::string EverySnapshot(const std::string& prefix) { return "snapshot: 1 snapshot_prefix: '" + prefix + "' "; }

class LossScalingTest : public ContractTest {
 protected:
  /// The table with and without loss scaling gives the same bits.
  static void CheckChangesNoBit(const std::string& solver, const std::vector<ClusterSpec>& tables) {
    for (const ClusterSpec& table : tables) {
      SCOPED_TRACE(Describe(table));
      const ClusterResult plain = TrainCluster(table, solver), scaled = TrainCluster(Scaled(table), solver);
      ASSERT_TRUE(plain.status.ok()) << plain.status;
      ASSERT_TRUE(scaled.status.ok()) << scaled.status;
      EXPECT_EQ(scaled.params, plain.params);
      EXPECT_EQ(scaled.losses, plain.losses);
    }
  }
};

TEST_F(LossScalingTest, ChangesNoBit) {
  CheckChangesNoBit(
      Solver("", false, 20),
      {Table(1, {}, 1, 0, false), Table(1, {}, 3, 2, false), Table(2, {2}, 3, 1, false), Table(2, {2, 3}, 2, 0, true),
       Table(3, {4}, 1, 0, false), Table(3, {}, 2, 1, false), WithTwoThreads(Table(2, {2}, 3, 0, false))});
}

/// Layers whose gradients are used up in pieces, unless the update waits for a verdict; a product over so many rows
/// could be summed in several ways.
TEST_F(LossScalingTest, ChangesNoBitOfLargeLayers) {
  const std::string solver = Solver("", false, 3);
  EditNet(solver, "batch_size: 11", "batch_size: 300");
  EditNet(solver, "num_output: 150", "num_output: 1500");
  EditNet(solver, "num_output: 130", "num_output: 1500");
  CheckChangesNoBit(solver, {Table(1, {}, 1, 0, false), Table(1, {1}, 2, 0, false)});
}

TEST_F(LossScalingTest, ChangesNoBitWithClippedGradients) {
  CheckChangesNoBit(Solver("clip_gradients: 0.8", false, 20),
                    {Table(1, {}, 1, 0, false), Table(2, {2}, 3, 1, false), Table(3, {}, 2, 1, true)});
}

/// Nodes without a parameter to update, and without a gradient to be scaled.
TEST_F(LossScalingTest, ChangesNoBitWithFrozenLayers) {
  CheckChangesNoBit(Solver("", true, 20),
                    {Table(1, {}, 2, 0, false), Table(2, {2}, 3, 1, false), Table(2, {1, 2}, 1, 0, true)});
}

/// The first updates are skipped: they leave initial weights and empty histories, on all nodes, and what follows is
/// what a job without loss scaling makes of that at the same iteration.
TEST_F(LossScalingTest, SkipsUpdatesUntilGradientsAreFinite) {
  constexpr int kIterations = 18;
  constexpr double kWeight = 0.8 * kHeavy;  // far from where one table overflows and another does not yet
  const auto skips = [&](const ClusterSpec& table, const std::string& extra, bool frozen) {
    const std::string prefix = NewPrefix();
    const ClusterResult scaled = TrainCluster(Scaled(table, Scaling(0x1p100, 2000)),
                                              Solver(EverySnapshot(prefix) + extra, frozen, kIterations, kWeight));
    EXPECT_TRUE(scaled.status.ok()) << scaled.status;
    const std::vector<double> scales = Scales(prefix, 0x1p100, kIterations - 1);
    int skipped = 0;
    while (skipped + 1 < kIterations && scales[skipped + 1] == scales[skipped] / 2) ++skipped;
    for (int i = skipped; i < kIterations; ++i) EXPECT_EQ(scales[i], scales[skipped]) << i;
    for (int i = 1; i <= skipped; ++i) {
      EXPECT_EQ(ReadBytes(SnapshotModelPath(prefix, i)), ReadBytes(SnapshotModelPath(prefix, 1))) << i;
    }
    EXPECT_NE(ReadBytes(SnapshotModelPath(prefix, skipped + 1)), ReadBytes(SnapshotModelPath(prefix, 1)));

    ClusterSpec plain = table;
    plain.resume = SnapshotStatePath(prefix, skipped);
    const ClusterResult rest = TrainCluster(plain, Solver(extra, frozen, kIterations, kWeight));
    EXPECT_TRUE(rest.status.ok()) << rest.status;
    EXPECT_EQ(scaled.params, rest.params);
    return std::pair(skipped, scaled);
  };
  const auto [skipped, one] = skips(Table(1, {}, 1, 0, false), "", false);
  EXPECT_GE(skipped, 3);
  EXPECT_LE(skipped, kIterations - 5);
  for (const ClusterSpec& table :
       {Table(2, {2}, 3, 1, false), Table(2, {2, 3}, 2, 0, true), Table(3, {}, 2, 1, false)}) {
    SCOPED_TRACE(Describe(table));
    const auto [same, result] = skips(table, "", false);
    EXPECT_EQ(same, skipped);
    Compare(result, one);
  }
  skips(Table(2, {2}, 2, 0, false), "clip_gradients: " + std::to_string(0.8 * kWeight) + " ", false);
  skips(Table(2, {2}, 2, 0, false), "", true);
}

/// The scale grows every third finite update until gradients overflow, again and again. A job that is stopped at any
/// point and resumed goes on to the same bits, the scaler's among them.
/// The manifest but for the time at which the training began: a resumed one has its own.
std::string ManifestWithoutBeginning(const std::string& prefix, int iteration) {
  return std::regex_replace(ReadBytes(SnapshotManifestPath(prefix, iteration)),
                            std::regex("\\n *(began_us|resumed_from|resumed_began_us): [0-9]+"), "");
}

TEST_F(LossScalingTest, ResumeGoesOnWithTheScale) {
  constexpr int kIterations = 20;
  const double initial = 0x1p84;
  for (ClusterSpec table : {Table(1, {}, 1, 0, false), Table(2, {2}, 3, 1, false)}) {
    SCOPED_TRACE(Describe(table));
    table = Scaled(table, Scaling(initial, 3));
    const std::string prefix = NewPrefix();
    const std::string solver = Solver(EverySnapshot(prefix), false, kIterations, kHeavy);
    const ClusterResult whole = TrainCluster(table, solver);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    const std::vector<double> scales = Scales(prefix, initial, kIterations);
    const std::string model = ReadBytes(SnapshotModelPath(prefix, kIterations));
    const std::string manifest = ManifestWithoutBeginning(prefix, kIterations);
    bool grew = false, fell = false;
    for (int i = 0; i < kIterations; ++i) {
      grew |= scales[i + 1] > scales[i];
      fell |= scales[i + 1] < scales[i];
    }
    EXPECT_TRUE(grew && fell) << testing::PrintToString(scales);
    for (const int from : {7, 11, 15}) {
      SCOPED_TRACE(from);
      table.resume = SnapshotStatePath(prefix, from);
      const ClusterResult resumed = TrainCluster(table, solver);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_EQ(resumed.params, whole.params);
      EXPECT_EQ(ReadBytes(SnapshotModelPath(prefix, kIterations)), model);
      EXPECT_EQ(ManifestWithoutBeginning(prefix, kIterations), manifest);
    }
  }
}

/// A snapshot of a job without loss scaling.
TEST_F(LossScalingTest, ResumeWithoutAStateBeginsWithTheInitialScale) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver("snapshot: 4 snapshot_prefix: '" + prefix + "' ", false, 9);
  const ClusterResult plain = TrainCluster(Table(1, {}, 1, 0, false), solver);
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  ClusterSpec table = Scaled(Table(1, {}, 1, 0, false), Scaling(32, 3));
  table.resume = SnapshotStatePath(prefix, 4);
  const ClusterResult scaled = TrainCluster(table, solver);
  ASSERT_TRUE(scaled.status.ok()) << scaled.status;
  EXPECT_EQ(scaled.params, plain.params);
  const auto snapshot = ReadSnapshot(SnapshotStatePath(prefix, 8));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->manifest->loss_scaling().scale(), 64);
  EXPECT_EQ(snapshot->manifest->loss_scaling().finite_updates(), 1);
}

TEST_F(LossScalingTest, StateOfASnapshotIsCheckedAndComparedBetweenNodes) {
  const std::string prefix = NewPrefix(), solver = Solver("snapshot: 2 snapshot_prefix: '" + prefix + "' ", false, 3);
  ClusterSpec spec = Scaled(Table(1, {}, 1, 0, false), Scaling(32, 3));
  ASSERT_TRUE(TrainCluster(spec, solver).status.ok());
  spec.resume = SnapshotStatePath(prefix, 2);
  const auto table = RoutingTable::Create(MakeTable(spec, solver), solver + ".table");
  ASSERT_TRUE(table.ok()) << table.status();
  const auto read = [&] { return JobFiles::Read(*table, table->node(0), spec.resume, {"none"}); };
  const std::string text = ReadBytes(SnapshotManifestPath(prefix, 2));
  const auto change = [&](const std::string& scale) {
    std::string other = text;
    WriteFile(SnapshotManifestPath(prefix, 2), other.replace(text.find("scale: 32"), 9, "scale: " + scale));
  };
  const auto own = read();
  ASSERT_TRUE(own.ok()) << own.status();
  change("64");
  const auto another = read();
  ASSERT_TRUE(another.ok()) << another.status();
  EXPECT_NE(another->Facts(0).snapshot_hash, own->Facts(0).snapshot_hash);
  change("48");
  EXPECT_EQ(read().status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(read().status().message(), testing::HasSubstr("loss scale 48 after 2 finite updates; expected a power"));
}

/// At a scale of 1, gradients that are not finite end the job. Until then there is one line for each skipped update.
TEST_F(LossScalingTest, StopsWhereNoScaleHelps) {
  const std::string solver = Solver("", false, 9, 0x1p127);
  EditNet(solver, "scale: 0.0078125", "scale: 8");
  LogLines skips;
  const ClusterResult result = TrainCluster(Scaled(Table(2, {2}, 2, 0, false), Scaling(4, 2000)), solver);
  EXPECT_EQ(result.status.code(), StatusCode::kNumeric);
  const std::string has = "has a NaN or infinity in its gradient: update skipped, loss scale now ";
  EXPECT_THAT(skips.With("update skipped"), testing::ElementsAre("iteration 0: layer \"conv1\" " + has + "2",
                                                                 "iteration 1: layer \"conv1\" " + has + "1"));
  EXPECT_THAT(result.status.message(), testing::ContainsRegex("^iteration 2: layer \".*\" produced a NaN or infinity"));
}

TEST_F(LossScalingTest, SkipsAlikeWithAnyDelays) {
  CheckSameBits(Scaled(Table(2, {2}, 3, 2, false), Scaling(0x1p94, 2)), Solver("", false, 12, kHeavy), {11, 12});
}

}  // namespace
}  // namespace hp::test

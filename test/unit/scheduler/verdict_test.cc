#include "scheduler/control/verdict.h"

#include "hp/status.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hp {
namespace {

constexpr int kNumeric = static_cast<int>(StatusCode::kNumeric);

IterationReport Report(int64_t clock, double sum_of_squares, const std::string& layer = "") {
  IterationReport report;
  report.set_clock(clock);
  report.set_sum_of_squares(sum_of_squares);
  report.set_layer(layer);
  return report;
}

IterationReport BadLoss(int64_t clock, const std::string& layer) {
  IterationReport report = Report(clock, 1, layer);
  report.set_finite(false);
  return report;
}

LossScaler Scaler(double initial, int growth_interval = 2000) {
  LossScaling config;
  config.set_initial(initial);
  config.set_growth_interval(growth_interval);
  return LossScaler(config);
}

/// The verdict on the reports of two nodes; the second one's comes first.
Verdict Judge(VerdictKeeper* keeper, const IterationReport& first, const IterationReport& second) {
  EXPECT_FALSE(keeper->Add(1, second));
  const std::optional<Verdict> verdict = keeper->Add(0, first);
  EXPECT_TRUE(verdict);
  return verdict.value_or(Verdict());
}

TEST(VerdictKeeper, ScalesGradientsOfALargerNorm) {
  VerdictKeeper keeper(2, 2.5);
  EXPECT_EQ(Judge(&keeper, Report(0, 3), Report(0, 3.25)).scale(), 1);
  EXPECT_EQ(Judge(&keeper, Report(1, 9), Report(1, 16)).scale(), 0.5);
  VerdictKeeper never(2, -1);
  EXPECT_EQ(Judge(&never, Report(0, 9), Report(0, 16)).scale(), 1);
}

void AddParam(int param, double gradient, double values, IterationReport* report) {
  ParamSquares* const squares = report->add_params();
  squares->set_param(param);
  squares->set_gradient(gradient);
  squares->set_values(values);
}

TEST(VerdictKeeper, AddsUpTheSquaresOfEachParameter) {
  VerdictKeeper keeper(2, -1);
  IterationReport first = Report(0, 3), second = Report(0, 4);
  AddParam(0, 1, 10, &first);
  AddParam(3, 2, 20, &first);
  AddParam(3, 4, 400, &second);
  const Verdict verdict = Judge(&keeper, first, second);
  ASSERT_EQ(verdict.params_size(), 2);
  EXPECT_EQ(verdict.params(0).param(), 0);
  EXPECT_EQ(verdict.params(0).values(), 10);
  EXPECT_EQ(verdict.params(1).param(), 3);
  EXPECT_EQ(verdict.params(1).gradient(), 6);
  EXPECT_EQ(verdict.params(1).values(), 420);
  EXPECT_EQ(Judge(&keeper, Report(1, 3), Report(1, 4)).params_size(), 0);
}

TEST(VerdictKeeper, StopsAtNumbersThatAreNotFiniteAndNamesTheLowestRanks) {
  VerdictKeeper keeper(2, -1);
  EXPECT_EQ(Judge(&keeper, Report(0, 1), Report(0, 1)).status(), 0);
  Verdict verdict = Judge(&keeper, Report(1, INFINITY, "conv1"), BadLoss(1, "loss"));
  EXPECT_EQ(verdict.status(), kNumeric);
  EXPECT_EQ(verdict.layer(), "conv1");
  verdict = Judge(&keeper, Report(2, 1), Report(2, NAN, "ip1"));
  EXPECT_EQ(verdict.status(), kNumeric);
  EXPECT_EQ(verdict.layer(), "ip1");
  EXPECT_FALSE(verdict.skip());
  EXPECT_EQ(verdict.next_loss_scale(), 1);
}

TEST(VerdictKeeper, SkipsWithHalfTheScaleWhereLossesAreScaled) {
  VerdictKeeper keeper(2, 1, Scaler(4));
  const Verdict verdict = Judge(&keeper, Report(0, 1), Report(0, INFINITY, "ip1"));
  EXPECT_TRUE(verdict.skip());
  EXPECT_EQ(verdict.status(), 0);
  EXPECT_EQ(verdict.layer(), "ip1");
  EXPECT_EQ(verdict.scale(), 1);
  EXPECT_EQ(verdict.next_loss_scale(), 2);
  const Verdict next = Judge(&keeper, Report(1, 1), Report(1, 1));
  EXPECT_FALSE(next.skip());
  EXPECT_FALSE(next.has_layer());
  EXPECT_EQ(next.next_loss_scale(), 2);
}

TEST(VerdictKeeper, ScaleOneIsNotToBlame) {
  VerdictKeeper keeper(2, -1, Scaler(2));
  EXPECT_TRUE(Judge(&keeper, Report(0, NAN, "ip1"), Report(0, 1)).skip());
  const Verdict verdict = Judge(&keeper, Report(1, NAN, "ip1"), Report(1, 1));
  EXPECT_FALSE(verdict.skip());
  EXPECT_EQ(verdict.status(), kNumeric);
  EXPECT_EQ(verdict.layer(), "ip1");
}

TEST(VerdictKeeper, NoScaleIsToBlameForALoss) {
  VerdictKeeper keeper(2, -1, Scaler(65536));
  const Verdict verdict = Judge(&keeper, Report(0, NAN, "ip1"), BadLoss(0, "loss"));
  EXPECT_FALSE(verdict.skip());
  EXPECT_EQ(verdict.status(), kNumeric);
}

TEST(VerdictKeeper, SaysTheNextClocksScale) {
  VerdictKeeper keeper(2, -1, Scaler(4, 2));
  EXPECT_EQ(Judge(&keeper, Report(0, 1), Report(0, 1)).next_loss_scale(), 4);
  EXPECT_EQ(Judge(&keeper, Report(1, 1), Report(1, 1)).next_loss_scale(), 8);
  EXPECT_EQ(keeper.scaler()->state().scale(), 8);
  EXPECT_EQ(keeper.scaler()->state().finite_updates(), 0);
}

/// Requests do not wait for a better clock.
TEST(VerdictKeeper, ASkipCarriesOrders) {
  VerdictKeeper keeper(2, -1, Scaler(4));
  IterationReport report = Report(0, INFINITY, "ip1");
  report.set_stop(true);
  report.set_snapshot(true);
  report.add_pull(1);
  const Verdict verdict = Judge(&keeper, report, Report(0, 1));
  EXPECT_TRUE(verdict.skip() && verdict.stop() && verdict.snapshot() && verdict.pull());
}

IterationReport Sharing(int64_t clock, bool shares) {
  IterationReport report = Report(clock, 1);
  report.set_shares_folder(shares);
  return report;
}

TEST(VerdictKeeper, OwnersWriteTheirFilesWhereAllNodesShareTheFolder) {
  VerdictKeeper keeper(2, -1);
  EXPECT_FALSE(Judge(&keeper, Sharing(0, true), Sharing(0, true)).has_owner_files()) << "nobody has asked for it";
  keeper.SetOwnerFiles(7);
  EXPECT_EQ(Judge(&keeper, Sharing(1, true), Sharing(1, true)).owner_files(), 7);
  EXPECT_FALSE(Judge(&keeper, Sharing(2, true), Sharing(2, false)).has_owner_files());
  EXPECT_FALSE(Judge(&keeper, Sharing(3, false), Sharing(3, true)).has_owner_files());
  EXPECT_FALSE(Judge(&keeper, Sharing(4, true), Report(4, 1)).has_owner_files()) << "one does not say";
  EXPECT_EQ(Judge(&keeper, Sharing(5, true), Sharing(5, true)).owner_files(), 7) << "each verdict by its own reports";
}

TEST(VerdictKeeper, OwnersWriteTheirFilesFromTheNextVerdictOn) {
  VerdictKeeper keeper(2, -1);
  EXPECT_FALSE(keeper.Add(1, Sharing(0, true)));
  EXPECT_FALSE(keeper.Add(1, Sharing(1, false)));  // of a later clock: it does not count for this one
  keeper.SetOwnerFiles(1);
  EXPECT_EQ(keeper.Add(0, Sharing(0, true)).value_or(Verdict()).owner_files(), 1);
  EXPECT_EQ(keeper.Add(0, Sharing(1, true)).value_or(Verdict()).owner_files(), 0);
  keeper.SetOwnerFiles(2);
  EXPECT_EQ(Judge(&keeper, Sharing(2, true), Sharing(2, true)).owner_files(), 2) << "a later start";
}

TEST(VerdictKeeper, AFolderIsSharedWhateverTheNumbersAre) {
  VerdictKeeper keeper(2, -1, Scaler(4));
  keeper.SetOwnerFiles(3);
  IterationReport bad = Sharing(0, true);
  bad.set_sum_of_squares(INFINITY);
  const Verdict skipped = Judge(&keeper, bad, Sharing(0, true));
  EXPECT_TRUE(skipped.skip());
  EXPECT_EQ(skipped.owner_files(), 3);
}

}  // namespace
}  // namespace hp

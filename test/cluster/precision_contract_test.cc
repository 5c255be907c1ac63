// precision: BF16 on CPUs. Factors of convolutions, and what is written behind these, are rounded, alike under all
// tables: results are near those of float32, and far nearer to each other.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

ClusterSpec InBFloat16(ClusterSpec table) {
  table.precision = RoutingTableConfig::BF16;
  return table;
}

class PrecisionContractTest : public ContractTest {
 protected:
  void SetUp() override {
    if (!CpuMultipliesBFloat16()) GTEST_SKIP() << "no AVX512_BF16 or AMX here";
  }
  static ClusterResult Train(const ClusterSpec& table, const std::string& solver) {
    ClusterResult result = TrainCluster(table, solver);
    EXPECT_TRUE(result.status.ok()) << Describe(table) << ": " << result.status;
    return result;
  }
};

/// Few iterations, since roundings grow with each, by the units of a ReLU or a pooling window that they decide.
TEST_F(PrecisionContractTest, ResultsAreNearThoseOfFloat32) {
  const std::string solver = Solver("", false, 4);
  const ClusterResult reference = Train({}, solver);
  for (const ClusterSpec& table :
       {ClusterSpec(), Table(2, {}, 3, 0, false), Table(1, {1}, 3, 0, false), Table(2, {2}, 3, 1, true),
        Table(3, {1, 2}, 2, 0, false), Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {2}, 3, 1, false), true)}) {
    SCOPED_TRACE(Describe(table));
    const ClusterResult result = Train(InBFloat16(table), solver);
    for (const auto& [name, values] : reference.params) {
      const double difference = RelativeDifference(result.params.at(name), values);
      EXPECT_LT(difference, name.ends_with(".1") ? 0.15 : 0.03) << name;
      EXPECT_GT(difference, 0) << name << ": nothing was rounded";
    }
    for (const auto& [clock, loss] : reference.losses) EXPECT_NEAR(result.losses.at(clock), loss, 0.02 * loss);
  }
}

/// Sums in another order change a last digit, and so here and there what a number is rounded to: far less than the
/// rounding itself.
TEST_F(PrecisionContractTest, TheTableChangesLittle) {
  const std::string solver = Solver("", false, 3);
  const ClusterResult plain = Train({}, solver), one = Train(InBFloat16({}), solver);
  const double rounding = LargestDifference(one, plain);
  EXPECT_GT(rounding, 1e-4);
  for (const ClusterSpec& table : {Table(1, {1}, 2, 0, false), Table(2, {2}, 3, 1, true), Table(3, {2}, 2, 0, false)}) {
    EXPECT_LT(LargestDifference(Train(InBFloat16(table), solver), one), 0.3 * rounding) << Describe(table);
  }
}

TEST_F(PrecisionContractTest, SameBitsWhateverArrivesFirst) {
  CheckSameBits(InBFloat16(Table(2, {3}, 3, 0, false)), Solver("", false, 12), {1, 2});
}

TEST_F(PrecisionContractTest, LearnsAsFloat32Does) {
  const std::string solver = Solver("");
  const ClusterResult plain = Train({}, solver), rounded = Train(InBFloat16(Table(2, {2}, 3, 1, false)), solver);
  const auto mean = [](const ClusterResult& result) {
    double sum = 0;
    for (int64_t clock = 40; clock < 50; ++clock) sum += result.losses.at(clock) / 10;
    return sum;
  };
  EXPECT_NEAR(mean(rounded), mean(plain), 0.05 * mean(plain));
}

}  // namespace
}  // namespace hp::test

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
};

TEST_F(PrecisionContractTest, ResultsAreNearThoseOfFloat32) {
  CheckNearFloat32({InBFloat16({}), InBFloat16(Table(2, {}, 3, 0, false)), InBFloat16(Table(1, {1}, 3, 0, false)),
                    InBFloat16(Table(2, {2}, 3, 1, true)), InBFloat16(Table(3, {1, 2}, 2, 0, false)),
                    InBFloat16(Split({{"ip2", SplitConfig::INPUTS}}, Table(2, {2}, 3, 1, false), true))});
}

TEST_F(PrecisionContractTest, TheTableChangesLittle) {
  CheckAlike({},
             {InBFloat16({}), InBFloat16(Table(1, {1}, 2, 0, false)), InBFloat16(Table(2, {2}, 3, 1, true)),
              InBFloat16(Table(3, {2}, 2, 0, false))},
             0.3);
}

TEST_F(PrecisionContractTest, CosinesOfClassesOnShards) {
  CheckAlike({}, {InBFloat16({}), InBFloat16(Table(1, {3}, 2, 0, false)), InBFloat16(Table(2, {2}, 3, 1, true))}, 0.3,
             {"normalize: true bias_term: false num_output: 120", "margin_param { scale: 8 angle: 0.3 cosine: 0.1 }"});
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

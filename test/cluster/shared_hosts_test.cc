// Replicas that share hosts: each host sums by itself before the sums of hosts cross the network.
#include "test/cluster/contract_fixture.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

constexpr char kA[] = "127.0.0.1", kB[] = "127.0.0.2", kC[] = "127.0.0.3", kD[] = "127.0.0.4";

ClusterSpec On(std::vector<std::string> hosts, ClusterSpec table) {
  table.hosts = std::move(hosts);
  return table;
}

class SharedHostsTest : public ContractTest {};

TEST_F(SharedHostsTest, TheSameNet) {
  Check(Solver(""), {On({kA, kA, kB, kB}, Table(4, {}, 1, 0, false)), On({kA, kB, kA}, Table(3, {2}, 2, 1, false)),
                     On({kA, kB, kB, kB, kA}, Table(5, {1, 2}, 2, 0, false))});
}

TEST_F(SharedHostsTest, TheSameBitsWhateverTheTiming) {
  CheckSameBits(On({kA, kB, kB, kA}, Table(4, {2}, 2, 2, false)), Solver("", false, 8), {31, 32});
  ClusterSpec rounded = On({kA, kB, kB}, Table(3, {1}, 2, 0, false));
  rounded.wire_precision = RoutingTableConfig::BF16;
  CheckSameBits(rounded, Solver("", false, 8), {33});
}

TEST_F(SharedHostsTest, InBFloat16TheyAreNearFloat32) {
  ClusterSpec table = On({kA, kB, kA, kB, kC}, Table(3, {2}, 3, 1, false));
  table.wire_precision = RoutingTableConfig::BF16;
  CheckNearFloat32({table});
}

/// What hosts are called changes nothing, nor does sharing where there is one host, or one replica on each.
TEST_F(SharedHostsTest, OnlyWhoSharesDecidesTheBits) {
  const std::string solver = Solver("", false, 8);
  const ClusterSpec table = Table(4, {}, 1, 0, false);
  const ClusterResult shared = Train(On({kA, kA, kB, kB}, table), solver);
  EXPECT_EQ(Train(On({kC, kC, kD, kD}, table), solver).params, shared.params);
  const ClusterResult ring = Train(table, solver);
  EXPECT_EQ(Train(On({kA, kB, kC, kD}, table), solver).params, ring.params);
  EXPECT_GT(LargestDifference(shared, ring), 0) << "another order of sums";
}

}  // namespace
}  // namespace hp::test

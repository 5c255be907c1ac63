// Tensors that go from memory to memory between nodes on the processors of one host: which road they take changes no
// bit.
#include "node/make_transport.h"
#include "test/cluster/contract_fixture.h"

#include "devices/host_copier.h"
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace hp::test {
namespace {

/// Counts what it copies, probes left out.
class CountingCopier : public HostCopier {
 public:
  explicit CountingCopier(std::atomic<size_t>* copied) : HostCopier(ThisPlace()), copied_(copied) {}
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    if (bytes != kCopyProbeBytes) *copied_ += bytes;
    HostCopier::Copy(to, from, bytes);
  }

 private:
  std::atomic<size_t>* const copied_;
};

class HostCopiesTest : public ContractTest {
 protected:
  /// Trains with copies of tensors from `least` bytes on, and without. @return bytes that were copied.
  static size_t Compare(ClusterSpec table, const std::string& solver, size_t least = 1) {
    table.tcp = true;
    table.least_host_copy = least;
    std::atomic<size_t> copied = 0;
    table.open_device = [&copied, precision = table.precision](Rank) -> StatusOr<NodeDevice> {
      NodeDevice cpu = OpenCpu(precision);
      auto copier = std::make_unique<CountingCopier>(&copied);
      cpu.device = MakeHostDevice([host = copier.get()](size_t bytes) { return host->Allocate(bytes); });
      cpu.copier = std::move(copier);
      return cpu;
    };
    table.device_copies = TransportConfig::OFF;
    const ClusterResult sent = TrainCluster(table, solver);
    EXPECT_TRUE(sent.status.ok()) << sent.status;
    EXPECT_EQ(copied, 0u) << "device_copies: OFF";
    table.device_copies = TransportConfig::ON;
    const ClusterResult with = TrainCluster(table, solver);
    EXPECT_TRUE(with.status.ok()) << with.status;
    EXPECT_EQ(with.params, sent.params);
    EXPECT_EQ(with.losses, sent.losses);
    EXPECT_FALSE(sent.losses.empty());
    return copied;
  }
};

TEST_F(HostCopiesTest, BoundariesAndSumsOfGradients) {
  const std::string solver = Solver("", false, 8);
  EXPECT_GT(Compare(Table(2, {2}, 3, 1, true), solver), 0u);
  EXPECT_GT(Compare(Table(1, {2}, 3, 1, true), solver), 0u) << "boundaries alone";
  EXPECT_GT(Compare(Table(2, {}, 1, 1, true), solver), 0u) << "sums alone";
}

TEST_F(HostCopiesTest, InBFloat16OnTheWire) {
  ClusterSpec table = Table(3, {2}, 2, 1, true);
  table.wire_precision = RoutingTableConfig::BF16;
  EXPECT_GT(Compare(table, Solver("", false, 8)), 0u);
}

TEST_F(HostCopiesTest, GradientsToParameterServers) {
  ClusterSpec table = Table(2, {1}, 2, 1, true);
  table.ps = {{0, 1}};
  table.staleness = 1;
  EXPECT_GT(Compare(table, Solver("", false, 8)), 0u);
}

TEST_F(HostCopiesTest, SmallTensorsAreSent) {
  EXPECT_EQ(Compare(Table(2, {2}, 3, 1, true), Solver("", false, 8), kLeastHostCopy), 0u);
}

}  // namespace
}  // namespace hp::test

#include "report/gauge.h"

#include "proto/wire.pb.h"
#include "report/job_gauge.h"
#include "test/support/log_lines.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>

#include <string>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NodeGaugeTest, TellsWhereEachIntervalWentAndAllOfThem) {
  FakeClock clock;
  NodeUse use;
  NodeGauge gauge("conv0", &clock, 2, [&] { return use; });
  test::LogLines log;
  const auto pass = [&](int64_t iteration, int64_t computing_ms, int64_t gradients_ms) {
    clock.Advance(1000 * kNsPerMs);
    use.time.computing_ns += computing_ms * kNsPerMs;
    use.time.waiting_ns[static_cast<int>(Wait::kGradients)] += gradients_ms * kNsPerMs;
    use.payload[2].sent += 1'500'000;
    use.payload[3].received += 1'000'000;
    gauge.OnClockDone(iteration);
  };
  pass(10, 500, 0);
  pass(11, 700, 0);
  use.time.waiting_ns[static_cast<int>(Wait::kInput)] += 400'000;  // 0.02%
  pass(12, 250, 500);
  pass(13, 250, 500);
  pass(14, 300, 200);
  gauge.Finish();
  EXPECT_THAT(log.With("node conv0"),
              ElementsAre("node conv0: 2 iterations in 2.000 s: computing 60.0%; sent 3.0 MB, received 2.0 MB",
                          "node conv0: 2 iterations in 2.000 s: computing 25.0%, waiting for gradients 50.0%; sent 3.0 "
                          "MB, received 2.0 MB",
                          "node conv0: 5 iterations in 5.000 s: computing 40.0%, waiting for gradients 24.0%; sent 7.5 "
                          "MB, received 5.0 MB"));
}

TEST(NodeGaugeTest, OnlyWhatCrossesALinkIsReported) {
  const RoutingTable table = MakeTable(kTable);  // ranks 0 and 2 on host a, 1 and 3 on host b
  NodeUse use;
  use.time.computing_ns = 5;
  use.payload = {{1, {10, 1}}, {2, {200, 20}}, {3, {3000, 300}}};
  IterationReport report;
  AddUse(table, 0, use, &report);
  EXPECT_EQ(report.computing_ns(), 5);
  EXPECT_EQ(report.link_sent_bytes(), 3010);
  EXPECT_EQ(report.link_received_bytes(), 301);
}

class JobGaugeTest : public testing::Test {
 protected:
  static RoutingTable TableWith(const std::string& on_a) {
    std::string text = kTable;
    const std::string entry = "name: \"fc1\"";
    return MakeTable(text.replace(text.find(entry), entry.size(), entry + " " + on_a));
  }
  /// The reports of iteration `clock`, in which each node computed 30 ms, node 2 as long as is given, and each sent
  /// 1 MB to the other host and received 2 MB.
  static void Report(JobGauge* gauge, int64_t clock, int64_t computing_ms) {
    for (Rank rank : {3, 1, 0, 2}) {
      IterationReport report;
      report.set_clock(clock);
      report.set_computing_ns((clock + 1) * (rank == 2 ? computing_ms : 30) * kNsPerMs);
      report.set_link_sent_bytes((clock + 1) * 1'000'000);
      report.set_link_received_bytes((clock + 1) * 2'000'000);
      gauge->Add(rank, report);
    }
  }

  FakeClock clock_;
  test::LogLines log_;
};

TEST_F(JobGaugeTest, ANodeIsTheLimit) {
  const RoutingTable table = TableWith("");
  JobGauge gauge(table, &clock_, 2, 0);
  gauge.Finish();
  EXPECT_THAT(log_.With("gauge"), IsEmpty());
  for (int64_t iteration : {0, 1, 2}) {
    clock_.Advance(100 * kNsPerMs);
    Report(&gauge, iteration, 80);
  }
  gauge.Finish();
  EXPECT_THAT(
      log_.With("gauge"),
      ElementsAre("gauge: iterations 0 to 1 took 100.0 ms each, limit 80.0 ms (node fc1 computes): 80% reached",
                  "gauge: iterations 0 to 2 took 100.0 ms each, limit 80.0 ms (node fc1 computes): 80% reached"));
}

// Host a has two nodes: 4 MB an iteration come in over 0.4 Gbit/s, which takes 80 ms.
TEST_F(JobGaugeTest, ALinkIsTheLimitOfAllNodesOfItsHost) {
  const RoutingTable table = TableWith("link_gbit_per_s: 0.4");
  JobGauge gauge(table, &clock_, 1, 0);
  clock_.Advance(160 * kNsPerMs);
  Report(&gauge, 0, 50);
  EXPECT_THAT(log_.With("gauge"), ElementsAre("gauge: iterations 0 to 0 took 160.0 ms each, limit 80.0 ms (host a "
                                              "receives 4.0 MB over 0.4 Gbit/s): 50% reached"));
}

}  // namespace
}  // namespace hp

#include "scheduler/control/boundary_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;

IterationReport ReportOf(int64_t clock) {
  IterationReport report;
  report.set_clock(clock);
  return report;
}

// A report of another node comes on the progress thread, this node's own on the executor's. Sent the other way round, a
// stop at 3 would reach a node that is past the boundary where all stop.
TEST(BoundaryRequests, VerdictsAreFollowedInTheirOrder) {
  BoundaryRequests requests(0);
  requests.Keep(2, -1, std::nullopt);
  std::vector<int64_t> followed;  // guarded by AddReport
  const auto follow = [&followed](const Verdict& verdict) { followed.push_back(verdict.clock()); };
  requests.AddReport(0, ReportOf(3), follow);
  requests.AddReport(0, ReportOf(4), follow);
  EXPECT_THAT(followed, ElementsAre());
  std::promise<void> begun;
  std::thread next;
  requests.AddReport(1, ReportOf(3), [&](const Verdict& verdict) {
    EXPECT_EQ(requests.clocks_judged(), 4) << "ahead of what follows from it";
    next = std::thread([&] {
      begun.set_value();
      requests.AddReport(1, ReportOf(4), follow);
    });
    begun.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for the other thread to overtake this one
    follow(verdict);
  });
  next.join();
  EXPECT_THAT(followed, ElementsAre(3, 4));
}

TEST(BoundaryRequests, ARequestIsCarriedOutAtOneBoundary) {
  BoundaryRequests requests(1);
  requests.RequestStop();
  requests.RequestSnapshot();
  IterationReport report = ReportOf(5);
  EXPECT_EQ(requests.clocks_reported(), 0);
  requests.AddRequests(&report);
  EXPECT_TRUE(report.stop() && report.snapshot());
  EXPECT_EQ(requests.clocks_reported(), 6);
  report.set_clock(6);
  requests.AddRequests(&report);
  EXPECT_TRUE(report.stop() && !report.snapshot()) << "one snapshot";

  Verdict verdict;
  verdict.set_clock(5);
  requests.Add(verdict);
  EXPECT_FALSE(requests.Peek(8).stop());
  verdict.set_stop(true);
  requests.Add(verdict);
  EXPECT_FALSE(requests.Peek(7).stop());
  EXPECT_TRUE(requests.Take(8).stop());
  EXPECT_FALSE(requests.Peek(8).stop());
}

}  // namespace
}  // namespace hp

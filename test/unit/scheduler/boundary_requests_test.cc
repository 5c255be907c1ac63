#include "scheduler/control/boundary_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <limits>
#include <string>
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

class OrdersTest : public testing::Test {
 protected:
  OrdersTest() { requests_.Keep(1, -1, std::nullopt, 100); }
  /// Gives an order. @return its number among those of `answers_`.
  size_t Order(const JobOrder& order) {
    const size_t number = answers_.size();
    answers_.emplace_back();
    requests_.Order(order, [this, number](const StatusOr<int64_t>& at) {
      answers_[number] = at.ok() ? std::to_string(*at) : std::string(at.status().message());
    });
    return number;
  }
  size_t Order(JobOrder::Kind kind) {
    JobOrder order;
    order.set_kind(kind);
    return Order(order);
  }
  size_t Rate(float base_lr) {
    JobOrder order;
    order.set_kind(JobOrder::RATE);
    order.set_base_lr(base_lr);
    return Order(order);
  }
  Verdict Judge(int64_t clock, double sum_of_squares = 1) {
    Verdict judged;
    IterationReport report = ReportOf(clock);
    report.set_sum_of_squares(sum_of_squares);
    requests_.AddReport(0, report, [&](const Verdict& verdict) { judged = verdict; });
    return judged;
  }

  BoundaryRequests requests_{0};
  std::vector<std::string> answers_;  // "": none yet
};

TEST_F(OrdersTest, TheNextVerdictCarriesThem) {
  Rate(0.5);
  Rate(0.25);
  Order(JobOrder::SNAPSHOT);
  JobOrder trace;
  trace.set_kind(JobOrder::TRACE);
  trace.set_trace_on(true);
  Order(trace);
  EXPECT_THAT(answers_, ElementsAre("", "", "", ""));
  const Verdict verdict = Judge(7);
  EXPECT_EQ(verdict.base_lr(), 0.25f) << "the later one";
  EXPECT_TRUE(verdict.snapshot() && verdict.trace() && !verdict.stop());
  EXPECT_THAT(answers_, ElementsAre("9", "9", "9", "9"));
  const Verdict next = Judge(8);
  EXPECT_FALSE(next.snapshot() || next.has_base_lr() || next.has_trace());
  requests_.Add(verdict);
  EXPECT_TRUE(requests_.Take(9).trace());
}

TEST_F(OrdersTest, AfterAStopNothingElse) {
  Rate(0.5);
  Order(JobOrder::STOP);
  Order(JobOrder::SNAPSHOT);
  EXPECT_FALSE(requests_.stop_at());
  const Verdict verdict = Judge(7);
  EXPECT_TRUE(verdict.stop() && verdict.snapshot() && !verdict.has_base_lr());
  EXPECT_EQ(requests_.stop_at(), 9);
  Order(JobOrder::STOP);
  Order(JobOrder::SNAPSHOT);
  EXPECT_FALSE(Judge(8).snapshot());
  const std::string stops = "the job stops at iteration 9";
  EXPECT_THAT(answers_, ElementsAre(stops, "9", "9", "9", stops));
}

TEST_F(OrdersTest, BehindTheLastIterationNothingIsCarriedOut) {
  Order(JobOrder::SNAPSHOT);
  Judge(98);
  Rate(0.5);
  Order(JobOrder::SNAPSHOT);
  Order(JobOrder::STOP);
  EXPECT_FALSE(Judge(99).has_base_lr());
  EXPECT_THAT(answers_[0], "100");
  EXPECT_THAT(answers_[1], "the job stops at iteration 100");
  EXPECT_THAT(answers_[3], "100");
}

TEST_F(OrdersTest, NumbersThatAreNotFiniteEndTheJobFirst) {
  Rate(0.5);
  Order(JobOrder::STOP);
  EXPECT_FALSE(Judge(7, std::numeric_limits<double>::infinity()).has_base_lr());
  const std::string ends = "the job ends: its numbers are not finite";
  EXPECT_THAT(answers_, ElementsAre(ends, ends));
}

}  // namespace
}  // namespace hp

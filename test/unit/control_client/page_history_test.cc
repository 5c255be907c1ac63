#include "control_client/page_history.h"

#include <gmock/gmock.h>

#include <string>

namespace hp {
namespace {

JobStatus At(int64_t iteration, const std::string& run = "run.1") {
  JobStatus status;
  status.set_job("job");
  status.set_run_id(run);
  status.mutable_learning()->set_iteration(iteration);
  status.mutable_learning()->set_loss(1.0 / static_cast<double>(iteration + 1));
  status.set_images_per_s(100);
  return status;
}

void Warn(JobStatus* status, const std::string& node, int64_t time_s, const std::string& text) {
  NodeState* const state = status->add_node();
  state->set_name(node);
  state->set_last_warning(text);
  state->set_last_warning_s(time_s);
}

TEST(PageHistoryTest, CurvesKeepTheirBeginningWithinBounds) {
  PageHistory history;
  for (int64_t i = 0; i < 20 * PageHistory::kMostPoints; ++i) {
    history.Add(At(i));
    ASSERT_LT(history.data().point_size(), PageHistory::kMostPoints);
  }
  const auto& points = history.data().point();
  EXPECT_EQ(points[0].iteration(), 0);
  EXPECT_GT(points.size(), PageHistory::kMostPoints / 3);
  for (int i = 1; i < points.size(); ++i) {
    EXPECT_EQ(points[i].iteration() - points[i - 1].iteration(), points[1].iteration()) << "evenly";
    EXPECT_EQ(points[i].loss(), 1.0 / static_cast<double>(points[i].iteration() + 1));
  }
}

TEST(PageHistoryTest, AnIterationIsOnePoint) {
  PageHistory history;
  for (int i = 0; i < 3; ++i) history.Add(At(7));
  EXPECT_EQ(history.data().point_size(), 1);
}

TEST(PageHistoryTest, ANextStartGoesOnAndReplacesWhatItDoesAnew) {
  PageHistory history;
  for (const int64_t i : {10, 20, 30}) history.Add(At(i));
  for (const int64_t i : {15, 25}) history.Add(At(i, "run.2"));
  std::string seen;
  for (const CurvePoint& point : history.data().point()) seen += std::to_string(point.iteration()) + " ";
  EXPECT_EQ(seen, "10 15 25 ");
}

TEST(PageHistoryTest, AnotherRunBeginsAnew) {
  PageHistory history;
  JobStatus first = At(10);
  Warn(&first, "conv0", 5, "old");
  history.Add(first);
  history.Add(At(20, "other.1"));
  ASSERT_EQ(history.data().point_size(), 1);
  EXPECT_EQ(history.data().point(0).iteration(), 20);
  EXPECT_EQ(history.data().line_size(), 0);
}

TEST(PageHistoryTest, WithoutAStatusTheLatestStays) {
  PageHistory history;
  history.Add(At(10));
  history.Add(Unavailable("no job at a:1"));
  EXPECT_EQ(history.data().problem(), "no job at a:1");
  EXPECT_EQ(history.data().status().learning().iteration(), 10);
  history.Add(At(11));
  EXPECT_FALSE(history.data().has_problem());
}

TEST(PageHistoryTest, EachOrderIsALineOfTheFirstNode) {
  PageHistory history;
  for (const char* text : {"order stop from a:1", "order stop from a:1", "order lr 1 from b:2"}) {
    JobStatus status = At(1);
    status.add_node()->set_name("conv0");
    status.mutable_last_order()->set_text(text);
    status.mutable_last_order()->set_time_s(7);
    history.Add(status);
  }
  ASSERT_EQ(history.data().line_size(), 2);
  EXPECT_EQ(history.data().line(0).node(), "conv0");
  EXPECT_EQ(history.data().line(0).time_s(), 7);
  EXPECT_EQ(history.data().line(1).text(), "order lr 1 from b:2");
}

TEST(PageHistoryTest, EachWarningAndEachTestOnce) {
  PageHistory history;
  for (int i = 0; i < 2 * PageHistory::kMostLines; ++i) {
    JobStatus status = At(i);
    Warn(&status, "conv0", i / 2, "late " + std::to_string(i / 2));
    Warn(&status, "fc0", 1, "always the same");
    status.mutable_learning()->set_test_iteration(i / 10 * 10);
    status.mutable_learning()->add_test_output()->set_value(i);
    history.Add(status);
  }
  EXPECT_EQ(history.data().line_size(), PageHistory::kMostLines);
  EXPECT_EQ(history.data().line(PageHistory::kMostLines - 1).text(),
            "late " + std::to_string(PageHistory::kMostLines - 1));
  EXPECT_EQ(history.data().test_size(), 2 * PageHistory::kMostLines / 10);
  EXPECT_EQ(history.data().test(1).test_iteration(), 10);
}

}  // namespace
}  // namespace hp

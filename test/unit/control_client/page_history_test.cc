#include "control_client/page_history.h"

#include "proto/log_lines.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;

JobStatus At(int64_t iteration, const std::string& run = "run.1") {
  JobStatus status;
  status.set_job("job");
  status.set_run_id(run);
  status.mutable_learning()->set_iteration(iteration);
  status.mutable_learning()->set_loss(1.0 / static_cast<double>(iteration + 1));
  status.set_images_per_s(100);
  return status;
}

void Log(JobStatus* status, int64_t number, LoggedLine::Severity severity, const std::string& text) {
  LoggedLine* const line = status->add_line();
  line->set_node("conv0");
  line->set_number(number);
  line->set_severity(severity);
  line->set_text(text);
}

std::vector<std::string> Lines(const PageHistory& history) {
  std::vector<std::string> lines;
  for (const LoggedLine& line : history.data().line()) lines.push_back(line.text());
  return lines;
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
  Log(&first, 1, LoggedLine::WARNING, "old");
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

TEST(PageHistoryTest, EachOrderIsALineOfTheFirstNodeOnce) {
  PageHistory history;
  int64_t number = 0;
  for (const char* text : {"order stop from a:1", "order stop from a:1", "order lr 1 from b:2"}) {
    JobStatus status = At(1);
    status.add_node()->set_name("conv0");
    status.mutable_last_order()->set_text(text);
    status.mutable_last_order()->set_time_s(7);
    history.Add(status);
    Log(&status, ++number, LoggedLine::PROGRESS, text);  // the log's line comes behind
    history.Add(status);
  }
  EXPECT_THAT(Lines(history), ElementsAre("order stop from a:1", "order lr 1 from b:2"));
  EXPECT_EQ(history.data().line(0).node(), "conv0");
  EXPECT_EQ(history.data().line(0).time_s(), 7);
  EXPECT_EQ(history.data().line(0).severity(), LoggedLine::ORDER);
}

TEST(PageHistoryTest, EachLineOnceAndThoseOfTheNextStart) {
  PageHistory history;
  JobStatus status = At(1);
  Log(&status, 1, LoggedLine::PROGRESS, "a");
  Log(&status, 2, LoggedLine::WARNING, "b");
  history.Add(status);
  Log(&status, 3, LoggedLine::PROGRESS, "c");
  history.Add(status);
  JobStatus next = At(1, "run.2");
  Log(&next, 1, LoggedLine::PROGRESS, "d");
  history.Add(next);
  EXPECT_THAT(Lines(history), ElementsAre("a", "b", "c", "d"));
}

TEST(PageHistoryTest, OfManyLinesThoseOfProgressGoFirst) {
  PageHistory history;
  for (int i = 1; i <= 2 * kMostLinesOfAKind; ++i) {
    JobStatus status = At(i);
    Log(&status, i, i == 3 ? LoggedLine::ERROR : LoggedLine::PROGRESS, std::to_string(i));
    history.Add(status);
  }
  const std::vector<std::string> lines = Lines(history);
  ASSERT_EQ(lines.size(), kMostLinesOfAKind + 1);
  EXPECT_EQ(lines[0], "3");
  EXPECT_EQ(lines[1], std::to_string(kMostLinesOfAKind + 1));
  EXPECT_EQ(lines.back(), std::to_string(2 * kMostLinesOfAKind));
}

TEST(PageHistoryTest, EachTestOnce) {
  PageHistory history;
  for (int i = 0; i < 80; ++i) {
    JobStatus status = At(i);
    status.mutable_learning()->set_test_iteration(i / 10 * 10);
    status.mutable_learning()->add_test_output()->set_value(i);
    history.Add(status);
  }
  EXPECT_EQ(history.data().test_size(), 8);
  EXPECT_EQ(history.data().test(1).test_iteration(), 10);
}

}  // namespace
}  // namespace hp

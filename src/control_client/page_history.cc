#include "control_client/page_history.h"

#include "proto/log_lines.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

/// The run of a job, whichever of its starts: "5f0c3a9e17d2b846" of "5f0c3a9e17d2b846.2".
std::string RunOf(const JobStatus& status) {
  return status.job() + "/" + status.run_id().substr(0, status.run_id().find('.'));
}

/// Takes away what is at `iteration` or later, which is done anew.
template <typename Items, typename Iteration>
void CutFrom(int64_t iteration, const Iteration& of, Items* items) {
  while (!items->empty() && of(*items->rbegin()) >= iteration) items->RemoveLast();
}

}  // namespace

void PageHistory::Add(const StatusOr<JobStatus>& status) {
  if (!status.ok()) return data_.set_problem(status.status().message());
  data_.clear_problem();
  if (!status->run_id().empty() && RunOf(*status) != run_) {
    if (!run_.empty()) *this = PageHistory();
    run_ = RunOf(*status);
  }
  *data_.mutable_status() = *status;
  AddPoint(*status);
  AddTest(status->learning());
  AddLines(*status);
  TrimLines(data_.mutable_line());
}

void PageHistory::AddPoint(const JobStatus& status) {
  const LearningStatus& learning = status.learning();
  if (!learning.has_loss()) return;
  auto* const points = data_.mutable_point();
  const auto iteration = [](const CurvePoint& point) { return point.iteration(); };
  if (!points->empty() && learning.iteration() == points->rbegin()->iteration()) return;
  CutFrom(learning.iteration(), iteration, points);
  if (!points->empty() && ++skipped_ < stride_) return;
  skipped_ = 0;
  CurvePoint* const point = points->Add();
  point->set_iteration(learning.iteration());
  point->set_loss(learning.loss());
  point->set_images_per_s(status.images_per_s());
  if (points->size() < kMostPoints) return;
  for (int i = 1; 2 * i < points->size(); ++i) points->SwapElements(i, 2 * i);
  while (points->size() > kMostPoints / 2) points->RemoveLast();
  skipped_ = stride_;  // the last one, which was dropped
  stride_ *= 2;
}

void PageHistory::AddTest(const LearningStatus& learning) {
  auto* const tests = data_.mutable_test();
  if (learning.test_output_size() == 0) return;
  const auto iteration = [](const LearningStatus& test) { return test.test_iteration(); };
  if (!tests->empty() && tests->rbegin()->test_iteration() == learning.test_iteration()) return;
  CutFrom(learning.test_iteration(), iteration, tests);
  LearningStatus* const test = tests->Add();
  test->set_test_iteration(learning.test_iteration());
  *test->mutable_test_output() = learning.test_output();
  if (tests->size() > kMostTests) tests->erase(tests->begin());
}

// An order is a line of the first node's log, too, which comes later, by the node's next report.
void PageHistory::AddLines(const JobStatus& status) {
  if (std::exchange(start_, status.run_id()) != status.run_id()) lines_seen_ = 0;
  const OrderRecord& order = status.last_order();
  for (const LoggedLine& line : status.line()) {
    if (line.number() <= lines_seen_) continue;
    lines_seen_ = line.number();
    if (line.text() != order.text()) *data_.add_line() = line;
  }
  const std::string order_at = std::to_string(order.time_s()) + " " + order.text();
  if (order.text().empty() || status.node_size() == 0 || std::exchange(last_order_, order_at) == order_at) return;
  LoggedLine* const line = data_.add_line();
  line->set_node(status.node(0).name());
  line->set_time_s(order.time_s());
  line->set_text(order.text());
  line->set_severity(LoggedLine::ORDER);
}

}  // namespace hp

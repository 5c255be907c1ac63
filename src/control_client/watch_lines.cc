#include "control_client/watch_lines.h"

#include "base/format.h"

#include "control_client/show_status.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

constexpr size_t kKept = 1024;  // values of a curve: wider than terminals are
constexpr int kLabelColumns = 24;

}  // namespace

void WatchedCurve::Add(double value) {
  values_.push_back(value);
  if (values_.size() > kKept) values_.erase(values_.begin());
}

std::string WatchedCurve::Line(const char* name, const char* format, size_t columns, bool utf8) const {
  const double now = values_.empty() ? NAN : values_.back();
  const std::string value = std::isfinite(now) ? Format(format, now) : "-";
  const std::string label = Format("%-10s %-*s ", name, kLabelColumns - 12, value.c_str());
  return label + Sparkline(values_, columns > kLabelColumns ? columns - kLabelColumns : 1, utf8);
}

std::vector<WatchLine> WatchLines(const JobStatus& status, int64_t now_s, const WatchedCurve& loss,
                                  const WatchedCurve& speed, size_t columns, bool utf8) {
  const StatusLines lines = LinesOf(status, now_s);
  std::vector<WatchLine> screen = {{lines.job, WatchLine::kBold},
                                   {lines.learning},
                                   {""},
                                   {loss.Line("loss", "%.4g", columns, utf8)},
                                   {speed.Line("images/s", "%.1f", columns, utf8)},
                                   {""},
                                   {lines.head, WatchLine::kReverse}};
  for (const std::string& node : lines.nodes) screen.push_back({node});
  if (!lines.warnings.empty()) screen.push_back({""});
  for (const std::string& warning : lines.warnings) screen.push_back({warning});
  screen.push_back({""});
  screen.push_back({"q: quit", WatchLine::kDim});
  return screen;
}

}  // namespace hp

#include "report/input_wait_log.h"

#include "base/format.h"

#include "glog/logging.h"

#include <utility>

namespace hp {

InputWaitLog::InputWaitLog(std::string node, const Pipeline* pipeline, const Clock* clock, int64_t display)
    : node_(std::move(node)),
      pipeline_(pipeline),
      clock_(clock),
      display_(display),
      start_{clock->NowNs(), 0},
      last_(start_) {}

void InputWaitLog::OnClockDone(int64_t clock) {
  if (display_ == 0 || (clock + 1) % display_ != 0) return;
  const Mark now = Now();
  Print(last_, now, 0.01);
  last_ = now;
}

void InputWaitLog::Finish() const { Print(start_, Now(), 0); }

void InputWaitLog::Print(const Mark& from, const Mark& to, double least) const {
  const double waited_s = static_cast<double>(to.waited_ns - from.waited_ns) / 1e9;
  const double passed_s = static_cast<double>(to.now_ns - from.now_ns) / 1e9;
  if (waited_s < least * passed_s) return;
  LOG(INFO) << "node " << node_ << Format(": waited %.3f s of %.3f s for data", waited_s, passed_s);
}

}  // namespace hp

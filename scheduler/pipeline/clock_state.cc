// The gradient of a parameter group goes: added for every micro-batch of the clock -> summed by the exchange, where
// other nodes have parts of it -> final. With clip_gradients, larc or loss scaling there are two steps more, because
// the verdict is on all gradients together: deferred ones are computed by a task of their own instead of within the
// update, and a norm is taken when all are final and nothing of the clock computes any more (what is computed after a
// verdict would belong to the next clock's loss scale). Updates of a clock wait for its tests, which read the
// parameters, and for those of the clocks before it. So norms are taken, and values pulled, in the order of clocks, as
// their receivers expect: otherwise a clock whose test waits for late images would be overtaken by the next one. None
// of these is waited for in a task: whatever comes last, of this node or of another, makes the next task ready.
//
// Where parameter servers update, the two halves lie on different nodes. On a replica: added -> given to the servers ->
// kPull, when nothing of this clock reads the values any more -> the gradient has been sent and the values are here. On
// a server: all replicas' gradients are here -> kUpdate, which sums them, and whose new values go to whoever pulls.
#include "scheduler/pipeline/clock_state.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {

void ClockState::Open(const std::vector<MsgId>& tests, const std::vector<MsgId>& trains, bool training) {
  open_ = true;
  training_ = training;
  ids_ = tests;
  ids_.insert(ids_.end(), trains.begin(), trains.end());
  tests_left_ = static_cast<int>(tests.size());
  trains_left_ = static_cast<int>(trains.size());
  flights_left_ = static_cast<int>(ids_.size());
  groups_.assign(plan_->groups.size(), {});
  for (size_t u = 0; u < groups_.size(); ++u) {
    groups_[u].missing = static_cast<int>(
        std::count_if(trains.begin(), trains.end(), [&](MsgId id) { return plan_->phase(id).groups[u].first >= 0; }));
  }
  updates_left_ = training_ ? static_cast<int>(groups_.size()) : 0;
}

std::optional<MsgId> ClockState::TakeId() {
  if (!open_ || next_ == ids_.size()) return std::nullopt;
  return ids_[next_++];
}

// --- Gradients

void ClockState::OnAdded(int group) {
  CHECK_GE(--groups_[group].missing, 0) << "group " << group;
  FinishGradientIfDone(group);
}

void ClockState::OnExchanged(int stage, int group) {
  const ParamGroupPlan& plan = plan_->groups.at(group);
  CHECK(plan.exchange != GroupExchange::kNone && plan.stage == stage && training_)
      << "group " << group << " is not exchanged by stage " << stage;
  CHECK(!std::exchange(groups_[group].exchanged, true))
      << "group " << group << " of clock " << clock_ << " exchanged twice";
  if (plan.exchange == GroupExchange::kPush) return FinishIfUpdated(group);
  FinishGradientIfDone(group);
}

void ClockState::OnValues(int stage, int group) {
  const ParamGroupPlan& plan = plan_->groups.at(group);
  CHECK(plan.exchange == GroupExchange::kPush && plan.stage == stage && groups_[group].taken)
      << "values of group " << group << " that were not pulled";
  CHECK(!std::exchange(groups_[group].values, true)) << "group " << group << " of clock " << clock_ << " came twice";
  FinishIfUpdated(group);
}

// A group with kPush: its gradient has been sent, so the next clock may write it, and its values are new.
void ClockState::FinishIfUpdated(int group) {
  if (groups_[group].exchanged && groups_[group].values) --updates_left_;
}

// Rule [update-when-complete]: a gradient is final when all ids of the clock are in it, and those of the other
// replicas; that of a group with kPush when it is all that this node has to give. The sum may be there before our own
// backward task is reported: the exchange has our part from within that task.
void ClockState::FinishGradientIfDone(int u) {
  Group& group = groups_[u];
  const ParamGroupPlan& plan = plan_->groups[u];
  const bool awaits = plan.exchange == GroupExchange::kSum || plan.exchange == GroupExchange::kServe;
  if (group.missing > 0 || (awaits && !group.exchanged)) return;
  if (plan.deferred && plan_->wait_for_verdict) {
    due_.push_back(TaskOf(Task::kWeightGradient, u));
  } else {
    group.gradient = true;  // a deferred one is computed with the update
  }
}

// --- Updates

Task ClockState::TaskOf(Task::Kind kind, int group) const {
  return {.kind = kind, .segment = plan_->groups[group].segment, .group = group, .clock = clock_};
}

bool ClockState::AllGradients() const {
  return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.gradient; });
}

std::vector<Task> ClockState::TakeDue(bool has_verdict, const Done& before) {
  ScheduleUpdates(has_verdict, before);
  return std::exchange(due_, {});
}

void ClockState::ScheduleUpdates(bool has_verdict, const Done& before) {
  if (!open_ || !training_ || tests_left_ > 0 || !before.tests) return;
  for (int u = 0; u < static_cast<int>(groups_.size()); ++u) {
    if (ExchangeOf(u) != GroupExchange::kPush) continue;
    if (groups_[u].gradient && !std::exchange(groups_[u].taken, true)) due_.push_back(TaskOf(Task::kPull, u));
  }
  if (plan_->wait_for_verdict) {
    if (!norm_pushed_ && before.norms && trains_left_ == 0 && AllGradients()) {
      norm_pushed_ = true;
      due_.push_back({.kind = Task::kNorm, .clock = clock_});
    }
    if (!norm_done_ || !has_verdict) return;
  }
  for (int u = 0; u < static_cast<int>(groups_.size()); ++u) {
    if (ExchangeOf(u) == GroupExchange::kPush) continue;
    if (groups_[u].gradient && !std::exchange(groups_[u].taken, true)) due_.push_back(TaskOf(Task::kUpdate, u));
  }
}

bool ClockState::Finished(bool has_verdict) const {
  if (!open_ || flights_left_ > 0 || updates_left_ > 0) return false;
  return !training_ || !plan_->wait_for_verdict || (norm_done_ && has_verdict);
}

bool ClockState::AwaitsExchange() const {
  if (!training_ || trains_left_ > 0) return false;
  for (size_t u = 0; u < groups_.size(); ++u) {
    if (ExchangeOf(u) != GroupExchange::kNone && !groups_[u].exchanged) return true;
    if (ExchangeOf(u) == GroupExchange::kPush && !groups_[u].values) return true;
  }
  return false;
}

}  // namespace hp

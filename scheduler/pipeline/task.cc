// Tasks that are ready lie in a set in the order of work, so taking the first one is all the scheduling there is: what
// peers wait for goes before what only this node needs, and earlier ids before later ones.
#include "scheduler/pipeline/task.h"

#include "base/format.h"

#include <tuple>
#include <utility>

namespace hp {

bool GoesBefore(const Task& a, const Task& b) {
  const auto order = [](const Task& task) {
    return std::tuple(task.kind != Task::kBoundary, !task.urgent, task.clock, task.kind, task.id.bits, -task.segment,
                      task.group);
  };
  return order(a) < order(b);
}

Task ReadyTasks::TakeFirst() { return std::move(tasks_.extract(tasks_.begin()).value()); }

Task ReadyTasks::Take(bool updates_together) {
  Task task = TakeFirst();
  if (!updates_together || task.kind != Task::kUpdate) return task;
  const auto goes_along = [&task](const Task& next) { return next.kind == Task::kUpdate && next.clock == task.clock; };
  while (!tasks_.empty() && goes_along(*tasks_.begin())) task.more_groups.push_back(TakeFirst().group);
  return task;
}

bool IsOfGroup(Task::Kind kind) {
  return kind == Task::kPull || kind == Task::kWeightGradient || kind == Task::kUpdate;
}

const char* NameOf(Task::Kind kind) {
  constexpr const char* kNames[] = {"boundary",        "pull", "backward", "forward",
                                    "weight gradient", "norm", "update",   "finish"};
  return kNames[kind];
}

std::string Describe(const Task& task) {
  std::string text = Format("iteration %lld: %s", static_cast<long long>(task.clock), NameOf(task.kind));
  if (task.id.bits != 0) {
    text += Format(", micro-batch %lld of replica %d, segment %d", static_cast<long long>(task.id.micro()),
                   task.id.replica(), task.segment);
  }
  if (IsOfGroup(task.kind)) text += Format(", group %d", task.group);
  for (int group : task.more_groups) text += Format(" %d", group);
  return text;
}

}  // namespace hp

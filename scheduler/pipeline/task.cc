#include "scheduler/pipeline/task.h"

#include "base/format.h"

#include <tuple>
#include <utility>

namespace hp {

bool GoesBefore(const Task& a, const Task& b) {
  return std::tuple(a.kind, a.id.bits, -a.segment, a.unit) < std::tuple(b.kind, b.id.bits, -b.segment, b.unit);
}

Task ReadyTasks::TakeFirst() { return std::move(tasks_.extract(tasks_.begin()).value()); }

Task ReadyTasks::Take(bool updates_together) {
  Task task = TakeFirst();
  if (!updates_together || task.kind != Task::kUpdate) return task;
  while (!tasks_.empty() && tasks_.begin()->kind == Task::kUpdate) task.more_units.push_back(TakeFirst().unit);
  return task;
}

std::string Describe(const Task& task) {
  constexpr const char* kNames[] = {"boundary", "backward", "forward", "weight gradient", "norm", "update", "finish"};
  std::string text = Format("iteration %lld: %s", static_cast<long long>(task.clock), kNames[task.kind]);
  if (task.id.bits != 0) {
    text += Format(", micro-batch %lld of replica %d, segment %d", static_cast<long long>(task.id.micro()),
                   task.id.replica(), task.segment);
  }
  if (task.kind == Task::kWeightGradient || task.kind == Task::kUpdate) text += Format(", unit %d", task.unit);
  for (int unit : task.more_units) text += Format(" %d", unit);
  return text;
}

}  // namespace hp

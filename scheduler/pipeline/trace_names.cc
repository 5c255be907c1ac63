#include "scheduler/pipeline/trace_names.h"

#include "base/format.h"

namespace hp {

std::string TraceName(MsgId id) {
  return Format("%lld:%s%lld.%d", static_cast<long long>(id.clock()), id.train() ? "" : "test ",
                static_cast<long long>(id.micro()), id.replica());
}

std::string TraceName(const Task& task) {
  std::string name = NameOf(task.kind);
  if (task.kind == Task::kForward || task.kind == Task::kBackward) name += Format(" segment %d", task.segment);
  if (IsOfGroup(task.kind)) name += Format(" group %d", task.group);
  for (const int group : task.more_groups) name += Format(" %d", group);
  if (task.id.bits != 0) return name + " id " + TraceName(task.id);
  return name + Format(" clock %lld", static_cast<long long>(task.clock));
}

std::string TraceName(Wait wait) { return std::string("waiting for ") + NameOf(wait); }

std::string TraceNameOfTensor(const PlaceTag& tag, const std::string& from, const std::string& to) {
  return Format("tensor %u id %s %s > %s", tag.channel, TraceName(MsgId{tag.msg_id}).c_str(), from.c_str(), to.c_str());
}

std::string TraceNameOfExchange(int stage, int64_t clock, int64_t part, const std::string& from,
                                const std::string& to) {
  return Format("exchange of stage %d clock %lld part %lld %s > %s", stage, static_cast<long long>(clock),
                static_cast<long long>(part), from.c_str(), to.c_str());
}

}  // namespace hp

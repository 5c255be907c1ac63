#include "scheduler/simulator/simulation_trace.h"

#include "base/format.h"

#include <utility>

namespace hp {
namespace {

constexpr const char* kThreads[] = {"", "executor", "link out", "link in"};

/// "forward segment 0 id 3:1.0": clock, micro-batch and replica.
std::string TextOf(const Task& task) {
  std::string name = NameOf(task.kind);
  if (task.kind == Task::kForward || task.kind == Task::kBackward) name += Format(" segment %d", task.segment);
  if (task.kind == Task::kWeightGradient || task.kind == Task::kUpdate) name += Format(" group %d", task.group);
  return name + (task.id.bits != 0 ? " id " + SimulationTrace::NameOf(task.id)
                                   : Format(" clock %lld", static_cast<long long>(task.clock)));
}

/// As in JSON, without its quotes.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += byte < 0x20 ? Format("\\u%04x", byte) : std::string(1, c);
  }
  return escaped;
}

std::string Micros(int64_t ns) {
  return Format("%lld.%03d", static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000));
}

}  // namespace

std::string SimulationTrace::NameOf(MsgId id) {
  return Format("%lld:%lld.%d", static_cast<long long>(id.clock()), static_cast<long long>(id.micro()), id.replica());
}

void SimulationTrace::AddTask(Rank rank, const Task& task, int64_t begin_ns, int64_t ns) {
  Add({rank, kExecutor, TextOf(task), begin_ns, ns});
}

void SimulationTrace::AddFrame(const SimulatedFrame& frame, const std::string& name) {
  Add({frame.from, kLinkOut, name, frame.out_begin_ns, frame.out_end_ns - frame.out_begin_ns});
  Add({frame.to, kLinkIn, name, frame.in_begin_ns, frame.in_end_ns - frame.in_begin_ns});
}

void SimulationTrace::Add(Span span) {
  if (span.ns == 0) return;
  const auto rank = static_cast<size_t>(span.rank);
  if (last_.size() <= rank) last_.resize(rank + 1, {-1, -1, -1, -1});
  int64_t& last = last_[rank][span.thread];
  if (last >= 0 && span.thread != kExecutor) {
    Span& before = spans_[last];
    if (before.begin_ns + before.ns == span.begin_ns && before.name == span.name) {
      before.ns += span.ns;
      return;
    }
  }
  last = std::ssize(spans_);
  spans_.push_back(std::move(span));
}

std::string SimulationTrace::Json(const std::vector<std::string>& nodes) const {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto metadata = [&](size_t rank, int thread, const char* what, const std::string& name) {
    json += Format("%s{\"ph\":\"M\",\"pid\":%zu,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"", separator, rank,
                   thread, what);
    json += Escaped(name) + "\"}}";
    separator = ",\n";
  };
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    metadata(rank, 0, "process_name", nodes[rank]);
    for (int thread = kExecutor; thread <= kLinkIn; ++thread) metadata(rank, thread, "thread_name", kThreads[thread]);
  }
  for (const Span& span : spans_) {
    json += Format("%s{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s,\"name\":\"", separator, span.rank,
                   span.thread, Micros(span.begin_ns).c_str(), Micros(span.ns).c_str());
    json += Escaped(span.name) + "\"}";
    separator = ",\n";
  }
  return json + "\n]}\n";
}

}  // namespace hp

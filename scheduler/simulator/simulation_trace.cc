#include "scheduler/simulator/simulation_trace.h"

#include "base/trace_events.h"
#include "scheduler/pipeline/trace_names.h"

#include <utility>

namespace hp {
namespace {

constexpr const char* kTracks[] = {"", kExecutorTrack, kLinkOutTrack, kLinkInTrack};

}  // namespace

void SimulationTrace::AddTask(Rank rank, const Task& task, int64_t begin_ns, int64_t ns) {
  Add({rank, kExecutor, TraceName(task), begin_ns, ns});
}

void SimulationTrace::AddWait(Rank rank, Wait wait, int64_t begin_ns, int64_t ns) {
  Add({rank, kExecutor, TraceName(wait), begin_ns, ns});
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
  std::string json = "[\n";
  const auto add = [&json](const std::string& event) { json += (json.size() > 2 ? ",\n" : "") + event; };
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
    add(TraceProcess(rank, nodes[rank]));
    for (int track = kExecutor; track <= kLinkIn; ++track) add(TraceTrack(rank, track, kTracks[track]));
  }
  for (const Span& span : spans_) add(TraceSpan(span.rank, span.thread, span.name, span.begin_ns, span.ns));
  return json + "\n]\n";
}

}  // namespace hp

// Iteration t, on every node: OnTaskDone -> report -> first node -> verdict -> OnVerdict. A verdict takes a round
// trip, and nodes do not wait for it: they go on with t + 1 meanwhile, and only clock t + delay() needs it, which is t
// + 2 without staleness. That is why requests of t are carried out in front of that clock: no node is past that
// boundary before it has the verdict, so all carry them out at the same one. Where updates wait for the verdict
// (clip_gradients, larc, loss scaling), reports are sent after the norm instead of at the end of the clock, and the
// verdict's factors apply to t itself.
#include "engine/clock_end.h"

#include "base/format.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <optional>

namespace hp {

void ClockEnd::OnTaskDone(const Task& task) {
  const bool waits = options_.model->plan().wait_for_verdict;
  if (task.kind == (waits ? Task::kNorm : Task::kFinishClock)) SendReport(task.clock);
}

void ClockEnd::SendReport(int64_t clock) {
  IterationReport report = options_.compute->TakeReport(clock);
  options_.requests->AddRequests(&report);
  if (options_.add_use) options_.add_use(&report);
  if (options_.pulls && options_.pulls->TakeRequest()) report.add_pull(1);
  if (options_.model->rank() == 0) {
    OnReport(0, report);
  } else {
    options_.send(0, kIterationReportMessage, report);
  }
}

void ClockEnd::OnReport(Rank from, const IterationReport& report) {
  if (options_.on_report) options_.on_report(from, report);
  options_.requests->AddReport(from, report, [this](const Verdict& verdict) {
    if (verdict.skip()) {
      LOG(WARNING) << "iteration " << verdict.clock() << ": layer \"" << Printable(verdict.layer())
                   << "\" has a NaN or infinity in its gradient: update skipped, loss scale now "
                   << Format("%g", verdict.next_loss_scale());
    }
    Verdict complete = verdict;
    if (std::optional<SlowNode> slow = options_.take_slow ? options_.take_slow() : std::nullopt) {
      *complete.mutable_slow_node() = *std::move(slow);
    }
    const int nodes = options_.model->table().size();
    for (Rank rank = 1; rank < nodes; ++rank) options_.send(rank, kVerdictMessage, complete);
    OnVerdict(complete);
  });
}

void ClockEnd::OnVerdict(const Verdict& verdict) {
  if (verdict.status() != 0) {
    options_.on_stopped(NumericError("iteration %lld: layer \"%s\" produced a NaN or infinity",
                                     static_cast<long long>(verdict.clock()), Printable(verdict.layer()).c_str()));
    return;
  }
  const int64_t due = verdict.clock() + options_.requests->delay();
  if (verdict.stop() && due < options_.solver->max_iter()) stops_early_ = true;
  if (verdict.has_base_lr()) ChangeRate(due, verdict.base_lr());
  if (verdict.has_slow_node()) options_.on_slow(verdict.slow_node());
  options_.requests->Add(verdict);
  if (options_.model->plan().wait_for_verdict) options_.compute->OnVerdict(verdict);
  options_.snapshotter->OnVerdict(verdict.clock());
  options_.pipeline->OnVerdict(verdict.clock(), verdict.stop() ? std::optional<int64_t>(due) : std::nullopt);
}

// Ahead of the update that it is for: no node begins that clock before it has the verdict.
void ClockEnd::ChangeRate(int64_t clock, float base_lr) {
  options_.rates->Change(clock, base_lr);
  if (options_.model->rank() == 0) {
    LOG(INFO) << "Iteration " << clock << ", base_lr = " << Format("%g", base_lr) << " from here on, as ordered";
  }
}

ClockEnd::CopyRequest ClockEnd::CopyAt(int64_t clock, const Verdict& request) const {
  const caffe::SolverParameter& solver = *options_.solver;
  const bool news = clock > options_.start_clock;
  const bool last = clock >= solver.max_iter();
  const bool periodic = solver.snapshot() > 0 && clock % solver.snapshot() == 0;
  // Without any update there is something to write nevertheless: Caffe does so unless `snapshot` would have, too.
  const bool initial = clock == 0 && last && solver.snapshot_after_train() && solver.snapshot() == 0;
  const bool due = initial || (news && (periodic || request.stop() || (last && solver.snapshot_after_train())));
  const bool files = request.snapshot() || due;
  return {files, request.pull(), files ? request.owner_files() : 0};
}

bool ClockEnd::BoundaryReady(int64_t clock) const {
  const CopyRequest copy = CopyAt(clock, options_.requests->Peek(clock));
  return (!copy.files && !copy.pull) || options_.snapshotter->HasRoom(copy.files, copy.start);
}

bool ClockEnd::BoundaryNeedsDone(int64_t clock) const {
  const CopyRequest copy = CopyAt(clock, options_.requests->Peek(clock));
  return copy.files || copy.pull || options_.model->schedule().TestsAt(clock);
}

bool ClockEnd::NeedsOwnVersion(int64_t clock) const {
  return options_.model->schedule().TestsAt(clock) || CopyAt(clock, options_.requests->Peek(clock)).files;
}

Status ClockEnd::Boundary(const Task& task) {
  const int64_t clock = task.clock;
  const Verdict request = options_.requests->Take(clock);
  options_.labels->Forget(clock - options_.model->plan().staleness);
  if (!request.stop() && options_.model->schedule().TestsAt(clock)) options_.inputs->StartTests(clock);
  if (request.has_trace()) options_.on_trace(request.trace());
  const CopyRequest copy = CopyAt(clock, request);
  if (!copy.files && !copy.pull) return OkStatus();
  return options_.snapshotter->Begin(clock, task.version, copy.files, copy.pull, options_.requests->loss_scaling(),
                                     copy.start);
}

}  // namespace hp

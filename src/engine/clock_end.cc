#include "engine/clock_end.h"

#include "base/format.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <optional>

namespace hp {

void ClockEnd::OnTaskDone(const Task& task) {
  const bool waits = options_.model->plan().wait_for_verdict;
  if (task.kind == (waits ? Task::kNorm : Task::kFinishClock)) SendPart(task.clock);
}

void ClockEnd::SendPart(int64_t clock) {
  VerdictPart part = options_.compute->TakeVerdictPart(clock);
  options_.orders->AddRequests(&part);
  if (options_.pulls && options_.pulls->TakeOrder()) part.add_pull(1);
  if (options_.model->rank() == 0) {
    OnPart(0, part);
  } else {
    options_.send(0, kVerdictPartMessage, part);
  }
}

void ClockEnd::OnPart(Rank from, const VerdictPart& part) {
  const std::optional<Verdict> verdict = options_.orders->AddPart(from, part);
  if (!verdict) return;
  if (verdict->skip()) {
    LOG(WARNING) << "iteration " << verdict->clock() << ": layer \"" << verdict->layer()
                 << "\" has a gradient that is not finite: update skipped, loss scale now "
                 << Format("%g", verdict->next_loss_scale());
  }
  const int nodes = options_.model->table().size();
  for (Rank rank = 1; rank < nodes; ++rank) options_.send(rank, kVerdictMessage, *verdict);
  OnVerdict(*verdict);
}

void ClockEnd::OnVerdict(const Verdict& verdict) {
  if (verdict.status() != 0) {
    options_.on_stopped(NumericError("iteration %lld: layer \"%s\" gave a number that is not finite",
                                     static_cast<long long>(verdict.clock()), verdict.layer().c_str()));
    return;
  }
  const int64_t due = verdict.clock() + Orders::kDelay;
  options_.orders->Add(verdict);
  if (options_.model->plan().wait_for_verdict) options_.compute->OnVerdict(verdict);
  options_.snapshotter->OnVerdict(verdict.clock());
  options_.pipeline->OnVerdict(verdict.clock(), verdict.stop() ? std::optional<int64_t>(due) : std::nullopt);
}

ClockEnd::CopyOrder ClockEnd::CopyAt(int64_t clock, const Verdict& order) const {
  const caffe::SolverParameter& solver = *options_.solver;
  const bool news = clock > options_.start_clock;
  const bool last = clock >= solver.max_iter() || order.stop();
  const bool periodic = solver.snapshot() > 0 && clock % solver.snapshot() == 0;
  const bool due = news && (periodic || (last && solver.snapshot_after_train()));
  return {order.snapshot() || due, order.pull()};
}

bool ClockEnd::BoundaryReady(int64_t clock) const {
  const CopyOrder copy = CopyAt(clock, options_.orders->Peek(clock));
  return (!copy.files && !copy.pull) || options_.snapshotter->HasRoom(copy.files);
}

Status ClockEnd::Boundary(int64_t clock) {
  const Verdict order = options_.orders->Take(clock);
  options_.labels->Forget(clock);
  if (options_.test_input && !order.stop() && options_.model->schedule().TestsAt(clock))
    options_.test_input->Start(clock);
  const CopyOrder copy = CopyAt(clock, order);
  if (!copy.files && !copy.pull) return OkStatus();
  return options_.snapshotter->Begin(clock, copy.files, copy.pull, options_.orders->loss_scaling());
}

}  // namespace hp

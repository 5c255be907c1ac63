#pragma once

#include "base/mutex.h"
#include "test/unit/scheduler/pipeline_job.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace hp::test {

/// A node that computes nothing but marks: every tensor that crosses is one word, a function of (id, port, writer,
/// reader). It looks at everything that the pipeline promises and keeps what was broken. Any threads.
class CheckedNode : public PipelineHost {
 public:
  CheckedNode(const JobSpec& job, Rank rank);

  const PipelinePlan& plan() const { return plan_; }
  const Schedule& schedule() const { return schedule_; }

  std::span<std::byte> Place(int solver, MsgId id, int port) override HP_EXCLUDES(mutex_);
  bool BoundaryReady(int64_t clock) override HP_EXCLUDES(mutex_);
  bool NeedsOwnVersion(int64_t clock) override { return schedule_.TestsAt(clock); }
  bool BoundaryNeedsDone(int64_t clock) override { return schedule_.TestsAt(clock) || clock % 3 == 2; }
  bool InputsReady(MsgId id, int segment) override HP_EXCLUDES(mutex_);
  void Freed(int solver, MsgId id) override HP_EXCLUDES(mutex_);

  /// Carries out a task and checks that it was due. @return whether the node's report of the iteration is to be sent.
  bool Run(const Task& task) HP_EXCLUDES(mutex_) {
    Enqueue(task);
    return Complete(task);
  }
  /// The two halves of it: the task takes its place in the device's order; and it has read and written its memory.
  void Enqueue(const Task& task) HP_EXCLUDES(mutex_);
  bool Complete(const Task& task) HP_EXCLUDES(mutex_);
  /// Records of the next id, or labels, arrive. @return false: all are there.
  bool TakeInput() HP_EXCLUDES(mutex_);
  /// Before the pipeline hears of it.
  void OnVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  void OnExchanged(int64_t clock, int group) HP_EXCLUDES(mutex_);
  void OnValues(int64_t clock, int group) HP_EXCLUDES(mutex_);
  /// The groups that a task, which was run, gives to the exchange: those of the last backward pass, last layer first.
  std::vector<int> GivenToExchange(const Task& task) const HP_EXCLUDES(mutex_);

  /// After the end: nothing is left over. @return all that was wrong, one line each; empty if nothing was.
  std::vector<std::string> Faults() const HP_EXCLUDES(mutex_);

 private:
  struct Flight {
    int forward = 0;          // segments enqueued
    int backward = 0;         // likewise, of those that have one
    int open = 0;             // tasks that are enqueued and not completed
    std::vector<bool> group;  // gradients of groups at hand
    bool freed = false;
  };
  /// What has happened in a clock.
  struct Clock {
    int64_t version = 0;
    std::map<MsgId, Flight> flights;
    std::set<int> updated, final, exchanged, pulled, values;  // groups
    bool norm = false;
  };
  /// What a group's memory holds.
  struct GroupMemory {
    int64_t gradient = 0;  // the clock that may add to it
    int64_t written = 0;   // the latest version that is being written, or is
    int64_t complete = 0;  // the latest version that is there
  };
  using Mark = uint64_t;

  const PhasePlan& phase(MsgId id) const { return id.train() ? plan_.phases[0][0] : plan_.phases[1][0]; }
  Mark MarkOf(MsgId id, const PortPlan& port) const;
  Mark* Word(int solver, int port) HP_REQUIRES(mutex_) { return &memory_[solver][port]; }
  void Expect(bool condition, const std::string& what, const Task& task) HP_REQUIRES(mutex_);
  void Boundary(const Task& task) HP_REQUIRES(mutex_);
  void Forward(const Task& task) HP_REQUIRES(mutex_);
  void Backward(const Task& task) HP_REQUIRES(mutex_);
  void WeightGradient(const Task& task) HP_REQUIRES(mutex_);
  void Norm(const Task& task) HP_REQUIRES(mutex_);
  void Update(const Task& task) HP_REQUIRES(mutex_);
  void Pull(const Task& task) HP_REQUIRES(mutex_);
  /// The values that the task reads of the groups in its segment are there, and nothing writes over them.
  void CheckVersion(const Task& task) HP_REQUIRES(mutex_);
  /// Something is added to the group's gradient.
  void CheckGradient(const Task& task, int group) HP_REQUIRES(mutex_);
  void FinishClock(const Task& task) HP_REQUIRES(mutex_);
  void CompleteClock(const Task& task) HP_REQUIRES(mutex_);
  /// The other replicas' parts of a group's gradient are there.
  void CheckExchanged(const Task& task, int group) HP_REQUIRES(mutex_);
  /// All that must have landed for segments up to `segment` is there and has not been overwritten.
  void CheckBeforeVerdict(const Task& task) HP_REQUIRES(mutex_);
  void CheckLanded(const Task& task, int segment, bool gradients) HP_REQUIRES(mutex_);
  void WriteMarks(const Task& task, bool gradient) HP_REQUIRES(mutex_);
  std::vector<MsgId> Trains(int64_t clock) const { return schedule_.TrainIds(clock, plan_.share); }
  int64_t VersionOf(int64_t clock) const;
  Flight& FlightOf(MsgId id) HP_REQUIRES(mutex_);
  int BackwardSegments() const;

  const JobSpec job_;
  const Rank rank_;
  const PipelinePlan plan_;
  const Schedule schedule_;

  mutable Mutex mutex_;
  std::vector<std::vector<Mark>> memory_ HP_GUARDED_BY(mutex_);  // [solver][port of the train phase]
  std::map<int, MsgId> bound_ HP_GUARDED_BY(mutex_);             // by solver, from its first use on
  std::map<int64_t, Clock> clocks_ HP_GUARDED_BY(mutex_);        // under way, and the last one
  int open_ HP_GUARDED_BY(mutex_) = 0;                           // tasks that are enqueued and not completed
  std::vector<MsgId> inputs_ HP_GUARDED_BY(mutex_);              // of the whole job
  size_t inputs_there_ HP_GUARDED_BY(mutex_) = 0;
  std::set<MsgId> ready_ HP_GUARDED_BY(mutex_);
  int64_t clock_ HP_GUARDED_BY(mutex_) = -1, finished_clock_ HP_GUARDED_BY(mutex_) = -1;  // the latest ones
  int64_t reported_clock_ HP_GUARDED_BY(mutex_) = -1;
  int64_t verdict_ HP_GUARDED_BY(mutex_) = -1;
  std::optional<int64_t> room_for_ HP_GUARDED_BY(mutex_);     // a boundary that was told that there is room
  std::vector<GroupMemory> memory_of_ HP_GUARDED_BY(mutex_);  // by group
  std::vector<MsgId> last_added_ HP_GUARDED_BY(mutex_);       // by group: whose gradient was the latest
  std::map<int, MsgId> last_backward_ HP_GUARDED_BY(mutex_);  // by segment
  std::vector<std::string> faults_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp::test

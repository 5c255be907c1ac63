#pragma once

#include "backend/backend.h"
#include "base/mutex.h"
#include "engine/class_sampler.h"
#include "engine/gradient_norms.h"
#include "engine/stage_server.h"
#include "engine/workspace.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"
#include "scheduler/pipeline/pipeline.h"
#include "solvers/learning_rates.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// A node's updates: deferred gradients (computed once for all rows of the update), the sums of squares for the norm,
/// the factors that the verdict prescribes, and the change of values and histories. Owned by Compute, which hands it
/// its tasks; it works in the Workspace's memory and the ParamStore's. On a device with memory of its own
/// DeferredGradient, Norm and Update only put work into kCompute and kCopyOut; results are there when the task is done.
/// Executor thread, except AddNorms (as Compute::Collect) and OnVerdict. "group" is an index into PipelinePlan::groups.
///
/// A clock goes, where updates wait for the verdict (PipelinePlan::wait_for_verdict):
///   DeferredGradient of each deferred group, Norm, AddNorms, OnVerdict, Update of each group;
/// elsewhere Update alone, for each group once its gradient is final, then AddNorms. Learning rates and the arithmetic
/// are those of Caffe's SGDSolver (solvers/update_rule.h).
class Updater {
 public:
  struct Options {
    Device* device = nullptr;  ///< must outlive the updater, like all that these point to
    Backend* backend = nullptr;
    ParamStore* params = nullptr;
    const Workspace* workspace = nullptr;
    const ClassSampler* sampler = nullptr;  ///< of the clock that is updated
    StageServer* server = nullptr;          ///< of a parameter server; else null
    float loss_scale = 1;                   ///< of the first clock
    const LearningRates* rates = nullptr;
  };

  /// @param model must outlive it. @return kResourceExhausted: the device, or the host for its side, is out of memory.
  static StatusOr<std::unique_ptr<Updater>> Create(const NodeModel& model, const Options& options);
  /// Bytes that Create takes of a device's own memory.
  static size_t DeviceBytes(const NodeModel& model) { return GradientNorms::DeviceBytes(model); }

  /// What losses multiply their gradients by in a clock that is under way. On the thread of AddNorms as well.
  float loss_scale(int64_t clock) const HP_EXCLUDES(mutex_) { return ScalesOf(clock).loss; }

  /// Computes the gradient of a deferred group over all rows of the update into the ParamStore; on a parameter server
  /// the sum of the replicas' gradients.
  void DeferredGradient(int64_t clock, int group);
  /// Computes the sums of squares of all gradients of `clock` that are whole here. Only where updates wait for the
  /// verdict.
  void Norm(int64_t clock) { norms_->Enqueue(clock, AllGroups()); }
  /// Updates values and histories of task.group and task.more_groups, whose gradients are final; where updates do not
  /// wait for the verdict, computes deferred gradients as well, and looks whether all are finite. If the verdict says
  /// skip, changes nothing, also no version.
  void Update(const Task& task);

  /// Takes the clock's gradient scale, norms and whether it is skipped, and the next clock's loss scale; does nothing
  /// where updates do not wait for verdicts. After the norm of its clock and before its updates. Any thread, one call
  /// at a time, in the order of clocks.
  void OnVerdict(const Verdict& verdict) HP_EXCLUDES(mutex_);
  /// GradientNorms::AddTo. After all tasks that compute sums of squares of the clock, and before any of the clock
  /// `staleness` + 1 later.
  void AddNorms(int64_t clock, IterationReport* report) const { norms_->AddTo(clock, loss_scale(clock), report); }

 private:
  using SquaresOfParams = std::shared_ptr<const std::vector<GradientNorms::Squares>>;
  /// Which update it is, the learning rate before lr_mult, and what the update multiplies its gradients by.
  struct StepSize {
    int64_t clock = 0;
    float rate = 0, gradient_scale = 1;
    double clip = 1;             ///< gradient_scale without the loss scale
    SquaresOfParams norms = {};  ///< null: rates do not go by norms
  };
  /// Takes rows [begin, end) of a deferred step's gradient: of a sampled one, those of its UpdateSample.
  using PieceFunction = std::function<void(const Op& op, const OpArgs& args, int64_t begin, int64_t end)>;

  /// Of one clock: the factors of its losses' gradients and of its updates' gradients, and whether it is skipped.
  struct Scales {
    float loss = 1, gradient = 1;
    double clip = 1;
    bool skip = false;
    SquaresOfParams norms = {};
  };

  Updater(const NodeModel& model, const Options& options) : model_(model), options_(options) {}
  Scales ScalesOf(int64_t clock) const HP_EXCLUDES(mutex_);

  /// Calls use(...) by all threads of the OpenMP team for ranges of a few rows of a deferred step's gradient.
  void InPieces(const NetStep& step, const PieceFunction& use);
  void DeferredGradient(const NetStep& step);
  void UpdateInPieces(const NetStep& step, const StepSize& size);
  /// Applies rows [begin, end) of the gradient of a parameter, unless it is frozen.
  /// @param sample says which row of the parameter a row of the gradient is; null: the same.
  /// @return 0, or a NaN: a gradient is not finite.
  double ApplyRows(int param, const StepSize& size, int64_t begin, int64_t end, const float* gradient,
                   const UpdateSample* sample);
  /// Of a sampled step, whose gradient is in memory.
  void UpdateSampled(const NetStep& step, const StepSize& size);
  bool serves(int group) const { return model_.plan().groups[group].exchange == GroupExchange::kServe; }
  /// Null: the step computes all its classes.
  const UpdateSample* SampleOf(const NetStep& step) const;
  /// How many rows of its weights an update changes.
  int64_t RowsOf(const NetStep& step) const;
  /// Whether an update of a parameter looks if its gradient is finite, because no norm of it is taken.
  bool Checks(int group, int param) const;
  /// The gradients are in memory.
  void UpdateWhole(const std::vector<int>& groups, const StepSize& size);
  UpdateCoefficients CoefficientsOf(int param, const StepSize& size) const;
  /// The update of a range of a parameter's elements. @param gradient of these alone.
  UpdatePart UpdateOf(int param, const UpdateCoefficients& coefficients, const StepSize& size, const Range& elements,
                      const float* gradient) const;
  /// With staleness an update starts from a copy of the values before it, whose readers may not be done.
  void CopyValues(int param, int64_t clock);

  const NetStep& StepOfGroup(int group) const { return model_.StepOf(model_.any_net(caffe::TRAIN), group); }
  std::vector<int> AllGroups() const;
  static std::vector<int> GroupsOf(const Task& task);

  const NodeModel& model_;
  const Options options_;
  std::vector<std::vector<float>> pieces_;  // by thread: rows of a gradient and of its bias
  std::unique_ptr<GradientNorms> norms_;
  mutable Mutex mutex_;
  /// By clock, where updates wait for the verdict; a clock not in it: defaults.
  std::map<int64_t, Scales> scales_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp

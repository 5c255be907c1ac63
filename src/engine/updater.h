#pragma once

#include "backend/backend.h"
#include "base/mutex.h"
#include "engine/class_sampler.h"
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
  /// Bytes that Create takes of a device's own memory: a double or two for each parameter of the node.
  static size_t DeviceBytes(const NodeModel& model);

  /// What losses multiply their gradients by in a clock that is under way. On the thread of AddNorms as well.
  float loss_scale(int64_t clock) const HP_EXCLUDES(mutex_) { return ScalesOf(clock).loss; }

  /// Computes the gradient of a deferred group over all rows of the update into the ParamStore; on a parameter server
  /// the sum of the replicas' gradients.
  void DeferredGradient(int64_t clock, int group);
  /// Computes the sums of squares of all gradients of `clock` that are whole here. Only where updates wait for the
  /// verdict.
  void Norm(int64_t clock) { EnqueueSquares(clock, OwnGroups()); }
  /// Updates values and histories of task.group and task.more_groups, whose gradients are final; where updates do not
  /// wait for the verdict, computes deferred gradients and sums of squares as well. If the verdict says skip, changes
  /// nothing, also no version.
  void Update(const Task& task);

  /// Takes the clock's gradient scale, norms and whether it is skipped, and the next clock's loss scale; does nothing
  /// where updates do not wait for verdicts. After the norm of its clock and before its updates. Any thread, one call
  /// at a time, in the order of clocks.
  void OnVerdict(const Verdict& verdict) HP_EXCLUDES(mutex_);
  /// Puts the sum of squares of the clock's gradients into `report`, without the loss scale and of groups that count on
  /// this node (ParamGroupPlan::counts), and the first layer that made it not finite, unless a loss was not finite;
  /// where rates go by norms, those of each parameter as well.
  /// Summed in the order of the groups, because the order of their updates depends on timing. After all tasks that
  /// compute sums of squares of the clock, and before any of the clock `staleness` + 1 later.
  void AddNorms(int64_t clock, IterationReport* report) const;

 private:
  /// Of whole parameters, by the index of a part in the ParamStore.
  using SquaresOfParams = std::shared_ptr<const std::vector<ParamSquares>>;
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
  /// Applies rows [begin, end) of the gradient of a parameter, which is not frozen.
  /// @param sample says which row of the parameter a row of the gradient is; null: the same.
  void ApplyRows(int param, const StepSize& size, int64_t begin, int64_t end, const float* gradient,
                 const UpdateSample* sample);
  /// The same, unless it is frozen. @return the rows' sum of squares.
  double UpdateRows(int param, const StepSize& size, int64_t begin, int64_t end, const float* gradient,
                    const UpdateSample* sample);
  /// Of a sampled step, whose gradient is in memory.
  void UpdateSampled(const NetStep& step, const StepSize& size);
  bool serves(int group) const { return model_.plan().groups[group].exchange == GroupExchange::kServe; }
  /// Null: the step computes all its classes.
  const UpdateSample* SampleOf(const NetStep& step) const;
  /// How many rows of its weights an update changes.
  int64_t RowsOf(const NetStep& step) const;
  /// The gradients are in memory.
  void UpdateWhole(const std::vector<int>& groups, const StepSize& size);
  UpdateCoefficients CoefficientsOf(int param, const StepSize& size) const;
  /// The update of a range of a parameter's elements. @param gradient of these alone.
  UpdatePart UpdateOf(int param, const UpdateCoefficients& coefficients, const StepSize& size, const Range& elements,
                      const float* gradient) const;
  /// Computes the sums of squares of the groups' gradients, where rates go by norms also of their values, and fetches
  /// them to the host.
  void EnqueueSquares(int64_t clock, const std::vector<int>& groups);
  /// Into [begin, end) of `squares`, each in its own place.
  void Download(int64_t clock, const std::vector<int>& places);
  bool larc() const { return model_.job().solver().larc(); }
  /// With staleness an update starts from a copy of the values before it, whose readers may not be done.
  void CopyValues(int param, int64_t clock);

  const NetStep& StepOfGroup(int group) const { return model_.StepOf(model_.any_net(caffe::TRAIN), group); }
  std::vector<int> AllGroups() const;
  /// All but those that parameter servers update, whose gradients here are a part alone.
  std::vector<int> OwnGroups() const;
  static std::vector<int> GroupsOf(const Task& task);
  /// [params], and behind them as many of values where rates go by norms, of one of the clocks that may be under way.
  double* squares(int64_t clock) const {
    const int64_t slot = clock % options_.params->versions();
    return reinterpret_cast<double*>(squares_.data()) + slot * options_.params->size() * (larc() ? 2 : 1);
  }
  double* device_squares() const { return reinterpret_cast<double*>(device_squares_.data()); }

  const NodeModel& model_;
  const Options options_;
  std::vector<std::vector<float>> pieces_;  // by thread: rows of a gradient and of its bias
  std::vector<int> places_;                 // by parameter: its index among all of the net; where rates go by norms
  Buffer squares_;                          // [clocks under way] of DeviceBytes, in the host's memory
  Buffer device_squares_;                   // the same where the device computes it; none on the host's
  mutable Mutex mutex_;
  /// By clock, where updates wait for the verdict; a clock not in it: defaults.
  std::map<int64_t, Scales> scales_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp

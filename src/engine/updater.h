#pragma once

#include "backend/backend.h"
#include "engine/workspace.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"
#include "scheduler/pipeline/pipeline.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// A node's updates: gradients that are computed for the whole update at once, their norms, what the verdict on them
/// says, and the change of the parameters. Owned by Compute, which hands it its tasks; the memory that it works in is
/// the Workspace's. On a device with memory of its own Norm and Update only put work into its queues; the norms are
/// there when the task is done. Executor thread, but for AddNorms (as Compute::Collect) and OnVerdict.
class Updater {
 public:
  struct Options {
    Device* device = nullptr;
    Backend* backend = nullptr;
    ParamStore* params = nullptr;
    const Workspace* workspace = nullptr;
    float loss_scale = 1;  ///< of the first clock
  };

  /// @return kResourceExhausted: the device has not so much memory.
  static StatusOr<std::unique_ptr<Updater>> Create(const NodeModel& model, const Options& options);
  /// Bytes that Create takes of a device's own memory.
  static size_t DeviceBytes(const NodeModel& model);

  /// The factor of the losses' gradients in a clock that is under way. Also as AddNorms.
  float loss_scale(int64_t clock) const { return ScalesOf(clock).loss; }

  void DeferredGradient(int unit) { DeferredGradient(StepOfUnit(unit)); }
  /// Has the norms of all gradients computed.
  void Norm() { EnqueueSquares(AllUnits()); }
  /// Updates the task's units, and has their norms computed where Norm did not.
  void Update(const Task& task);

  /// How the verdict wants its clock's updates and the next clock's losses, where updates wait for it. After the norm
  /// of its clock, before its updates: nothing that reads what it says is under way. Any thread, one after the other.
  void OnVerdict(const Verdict& verdict);
  /// Puts the sum of squares of the clock's gradients into `part`, as far as this node answers for them, added up in
  /// the order of the units: that in which they were updated depends on timing. When all tasks that compute norms of
  /// the clock are done, and before any of the next one.
  void AddNorms(int64_t clock, VerdictPart* part) const;

 private:
  /// What an update multiplies its gradients by.
  struct StepSize {
    float rate = 0, gradient_scale = 1;
  };
  using PieceFunction = std::function<void(const Op& op, const OpArgs& args, int64_t begin, int64_t end)>;

  /// What belongs to one clock: the factors of its losses and of its gradients, and whether it changes anything.
  struct Scales {
    float loss = 1, gradient = 1;
    bool skip = false;
  };

  Updater(const NodeModel& model, const Options& options) : model_(model), options_(options) {}
  Scales ScalesOf(int64_t clock) const;

  /// Calls use(...) by all threads for ranges of a few rows of a deferred step's gradient.
  void InPieces(const NetStep& step, const PieceFunction& use);
  void DeferredGradient(const NetStep& step);
  void UpdateInPieces(const NetStep& step, const StepSize& size);
  /// Applies rows [begin, end) of a parameter's gradient. @return its sum of squares.
  double UpdateRows(int param, const StepSize& size, int64_t begin, int64_t end, const float* gradient);
  void UpdateWhole(const std::vector<int>& units, const StepSize& size);
  SgdCoefficients CoefficientsOf(int param, const StepSize& size) const;
  /// Has the sums of squares of the units' gradients computed, and brought to the host.
  void EnqueueSquares(const std::vector<int>& units);

  const NetStep& StepOfUnit(int unit) const { return model_.any_net(true).steps()[model_.unit_steps()[unit]]; }
  std::vector<int> AllUnits() const;
  static std::vector<int> UnitsOf(const Task& task);
  double* squares() const { return reinterpret_cast<double*>(squares_.data()); }
  double* device_squares() const { return reinterpret_cast<double*>(device_squares_.data()); }

  const NodeModel& model_;
  const Options options_;
  std::vector<std::vector<float>> pieces_;  // of gradients, by thread
  Buffer squares_;                          // [params] double
  Buffer device_squares_;                   // where the device computes them; none on the host's
  std::map<int64_t, Scales> scales_;        // by clock, where updates wait for the verdict
};

}  // namespace hp

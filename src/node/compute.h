#pragma once

#include "node/input.h"
#include "node/label_store.h"
#include "node/model.h"
#include "proto/wire.pb.h"
#include "solvers/exchange/exchange.h"
#include "solvers/param_store.h"
#include "solvers/solver_pool.h"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// What a node's executor computes: segments of its nets for the pipeline's tasks, and the updates of its parameters.
/// Executor thread only, except Place.
class Compute {
 public:
  /// Statistics of a micro-batch: one value for each output of its NodeNet.
  using StatisticsSink = std::function<void(MsgId id, const std::vector<float>& values)>;

  Compute(const NodeModel& model, ParamStore* params, Exchange* exchange, const LabelStore* labels, Input* train_input,
          Input* test_input, StatisticsSink on_statistics);

  SolverPool* pool() { return &pool_; }
  /// Memory that peers write into beside the pool's: rows of deferred gradients.
  std::span<const Buffer> update_matrices() const { return matrices_; }

  /// The bytes of a port. Any thread.
  std::span<std::byte> Place(int solver, MsgId id, int port) const;

  /// Carries out any task but kBoundary. @return kUnavailable: a replica was lost in the exchange.
  Status Run(const Task& task);
  /// The scale that a verdict put on the gradients of its clock.
  void SetGradientScale(float scale) { gradient_scale_ = scale; }
  /// What there is to say of `clock` when kNorm or kFinishClock has run.
  VerdictPart TakeVerdictPart(int64_t clock);

 private:
  NetRun MakeRun(int solver, MsgId id) const;
  const NodeNet& NetOf(MsgId id) const;
  void Forward(const Task& task);
  void ReportStatistics(const NodeNet& net, const NetRun& run, const Task& task);
  void Backward(const Task& task);
  void WeightGradient(const Task& task);
  Status Norm(int64_t clock);
  Status Update(const Task& task);
  void WithUpdateArgs(const NetStep& step, const std::function<void(Op&, const OpArgs&)>& use);
  void DeferredGradient(const NetStep& step);
  void UpdateInPieces(const NetStep& step, float rate);
  /// Applies rows [begin, end) of a parameter's gradient. @return its sum of squares.
  double UpdateRows(int param, float rate, int64_t begin, int64_t end, const float* gradient);
  void UpdateWhole(int param, float rate);
  void AddSquares(const NetStep& step, double squares);
  void AddSquares(const NetStep& step);
  Status FinishExchange(int64_t clock);
  const NetStep& StepOfUnit(int unit) const { return model_.any_net(true).steps()[model_.unit_steps()[unit]]; }

  const NodeModel& model_;
  ParamStore* const params_;
  Exchange* const exchange_;
  const LabelStore* const labels_;
  Input* const train_input_;
  Input* const test_input_;
  const StatisticsSink on_statistics_;

  SolverPool pool_;
  Buffer scratch_;
  std::vector<Buffer> matrices_;
  std::vector<std::byte*> matrix_rows_;
  std::vector<std::vector<float>> pieces_;            // of gradients, by thread
  std::vector<std::vector<float>> unused_gradients_;  // of frozen parameters in layers that learn otherwise
  std::vector<float*> gradients_;
  std::map<const NodeNet*, std::vector<int>> param_index_;  // of a NodeNet's parameters in the store
  MsgId first_id_, last_id_;                                // of a clock, in clock 0
  int64_t exchanged_ = -1;                                  // latest clock whose exchange is finished
  float gradient_scale_ = 1;
  VerdictPart part_;
};

}  // namespace hp

#include "node/compute.h"

#include "solvers/lr_policy.h"
#include "backend/cpu/update.h"
#include "solvers/sgd.h"

#include "glog/logging.h"
#include <omp.h>

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

// Rows of a gradient that are made and used up together: 24 rows of fc6 of AlexNet are 0.9 MB.
constexpr int64_t kPieceRows = 24;

}  // namespace

Compute::Compute(const NodeModel& model, ParamStore* params, Exchange* exchange, const LabelStore* labels,
                 Input* train_input, Input* test_input, StatisticsSink on_statistics)
    : model_(model),
      params_(params),
      exchange_(exchange),
      labels_(labels),
      train_input_(train_input),
      test_input_(test_input),
      on_statistics_(std::move(on_statistics)),
      pool_(model.plan().pool_size, model.arena_bytes()),
      scratch_(model.scratch_bytes() + 64) {
  for (size_t row : model.any_net(true).update_row_bytes()) {
    matrices_.emplace_back(row * model.schedule().update_rows());
    matrix_rows_.push_back(matrices_.back().data());
  }
  for (int i = 0; i < params->size(); ++i) {
    // Ops write a gradient for every parameter of a layer that learns; that of a frozen one is not looked at.
    unused_gradients_.emplace_back(params->param(i).frozen() ? params->count(i) : 0);
    gradients_.push_back(params->param(i).frozen() ? unused_gradients_[i].data() : params->gradient(i).data());
  }
  for (bool train : {true, false}) {
    if (!train && !model.tests()) continue;
    for (int64_t rows : model.schedule().RowCounts(train)) {
      const NodeNet& net = model.net(train, rows);
      for (const NodeParam& param : net.params()) param_index_[&net].push_back(params->Find(param.layer, param.blob));
    }
  }
  const std::vector<MsgId> ids = model.schedule().TrainIds(0, model.replica());
  if (!ids.empty()) {
    first_id_ = ids.front();
    last_id_ = ids.back();
  }
}

const NodeNet& Compute::NetOf(MsgId id) const { return model_.net(id.train(), model_.schedule().SamplesOfId(id).rows); }

NetRun Compute::MakeRun(int solver, MsgId id) const {
  const IdSamples samples = model_.schedule().SamplesOfId(id);
  const JobShape& shape = model_.schedule().shape();
  NetRun run;
  run.arena = pool_.arena(solver);
  run.update_matrices = matrix_rows_;
  run.update_row = samples.batch * shape.train_batch + samples.first_row;
  run.scratch = scratch_.data();
  run.gradients = gradients_;
  run.batch.train = id.train();
  run.batch.first_sample = samples.first_sample;
  run.batch.global_rows = id.train() ? shape.train_batch : shape.test_batch;
  return run;
}

std::span<std::byte> Compute::Place(int solver, MsgId id, int port) const {
  const NodeNet& net = NetOf(id);
  return net.BufferSpan(net.ports()[port].buffer, MakeRun(solver, id));
}

Status Compute::Run(const Task& task) {
  switch (task.kind) {
    case Task::kForward:
      Forward(task);
      return OkStatus();
    case Task::kBackward:
      Backward(task);
      return OkStatus();
    case Task::kWeightGradient:
      WeightGradient(task);
      return OkStatus();
    case Task::kNorm:
      return Norm(task.clock);
    case Task::kUpdate:
      return Update(task);
    case Task::kBoundary:
    case Task::kFinishClock:
      break;
  }
  return OkStatus();
}

namespace {

/// The views that a NetRun points to, for the duration of a task.
std::vector<ParamView> ViewsOf(const ParamStore& params, const std::vector<int>& index) {
  std::vector<ParamView> views;
  for (int i : index) views.push_back(params.View(i));
  return views;
}

}  // namespace

void Compute::Forward(const Task& task) {
  const NodeNet& net = NetOf(task.id);
  NetRun run = MakeRun(task.solver, task.id);
  const std::vector<ParamView> views = ViewsOf(*params_, param_index_.at(&net));
  run.params = views;
  Input* input = task.id.train() ? train_input_ : test_input_;
  if (net.reads_images()) run.images = input->images(task.id);
  if (net.reads_labels(task.segment)) {
    run.batch.batch_labels = labels_->BatchOf(task.id);
    const IdSamples samples = model_.schedule().SamplesOfId(task.id);
    run.batch.labels = run.batch.batch_labels.subspan(samples.first_row, samples.rows);
  }
  net.Forward(task.segment, run);
  ReportStatistics(net, run, task);
}

void Compute::ReportStatistics(const NodeNet& net, const NetRun& run, const Task& task) {
  std::vector<float> values;
  int last_segment = -1;
  for (const NetOutput& output : net.outputs()) {
    last_segment = std::max(last_segment, output.segment);
    values.push_back(net.ValueOf(output.tensor, run).data[0]);
    const bool bad = output.segment == task.segment && task.id.train() && !std::isfinite(values.back());
    if (bad && part_.finite()) {
      part_.set_finite(false);
      part_.set_layer(output.layer);
    }
  }
  if (last_segment == task.segment) on_statistics_(task.id, values);
}

void Compute::Backward(const Task& task) {
  const NodeNet& net = NetOf(task.id);
  NetRun run = MakeRun(task.solver, task.id);
  const std::vector<ParamView> views = ViewsOf(*params_, param_index_.at(&net));
  run.params = views;
  if (net.reads_images()) run.images = train_input_->images(task.id);
  if (net.reads_labels(task.segment)) {
    run.batch.batch_labels = labels_->BatchOf(task.id);
    const IdSamples samples = model_.schedule().SamplesOfId(task.id);
    run.batch.labels = run.batch.batch_labels.subspan(samples.first_row, samples.rows);
  }
  const MsgId in_first_clock = MsgId::Make(0, true, task.id.micro(), task.id.replica());
  run.accumulate = in_first_clock != first_id_;
  const bool last = in_first_clock == last_id_;
  net.Backward(task.segment, run, model_.data_parallel(), [&](const NetStep& step) {
    if (!last) return;
    for (int param : step.params) {
      if (!params_->gradient(param).empty()) exchange_->Add(task.clock, param, params_->gradient(param));
    }
  });
}

void Compute::WeightGradient(const Task& task) {
  if (task.id.bits == 0) return DeferredGradient(StepOfUnit(task.unit));
  const NodeNet& net = NetOf(task.id);
  NetRun run = MakeRun(task.solver, task.id);
  const std::vector<ParamView> views = ViewsOf(*params_, param_index_.at(&net));
  run.params = views;
  if (net.reads_images()) run.images = train_input_->images(task.id);
  run.accumulate = MsgId::Make(0, true, task.id.micro(), task.id.replica()) != first_id_;
  net.WeightGradient(net.steps()[model_.unit_steps()[task.unit]], run);
}

void Compute::WithUpdateArgs(const NetStep& step, const std::function<void(Op&, const OpArgs&)>& use) {
  const NodeNet& net = model_.any_net(true);
  NetRun run;
  run.arena = pool_.arena(0);
  run.update_matrices = matrix_rows_;
  run.scratch = scratch_.data();
  run.gradients = gradients_;
  const std::vector<ParamView> views = ViewsOf(*params_, param_index_.at(&net));
  run.params = views;
  net.WithUpdateArgs(step, run, use);
}

void Compute::DeferredGradient(const NetStep& step) {
  WithUpdateArgs(step, [](Op& op, const OpArgs& args) { op.BackwardParams(args); });
}

// A few rows of the gradient at a time: they are still in the cache when the update reads them, and the gradient of a
// large layer never goes to memory and back. The sums of squares are added in the order of the rows.
void Compute::UpdateInPieces(const NetStep& step, float rate) {
  const int weights = step.params[0], bias = step.params.size() > 1 ? step.params[1] : -1;
  const StoredParam& stored = params_->param(weights);
  const int64_t rows = stored.end_row - stored.begin_row, row = stored.whole.count(1);
  const int64_t pieces = (rows + kPieceRows - 1) / kPieceRows;
  std::vector<double> squares(pieces, 0);
  pieces_.resize(omp_get_max_threads());
  for (std::vector<float>& piece : pieces_) piece.resize(std::max<size_t>(piece.size(), kPieceRows * (row + 1)));
  WithUpdateArgs(step, [&](Op& op, const OpArgs& args) {
    op.BeginParamsRows(args);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t begin = p * kPieceRows, end = std::min(begin + kPieceRows, rows);
      float* d_weights = pieces_[omp_get_thread_num()].data();
      float* d_bias = bias < 0 ? nullptr : d_weights + kPieceRows * row;
      op.BackwardParamsRows(args, begin, end, d_weights, d_bias);
      squares[p] = UpdateRows(weights, rate, begin, end, d_weights);
      if (bias >= 0) squares[p] += UpdateRows(bias, rate, begin, end, d_bias);
    }
  });
  for (double sum : squares) AddSquares(step, sum);
  for (int param : step.params) params_->MarkUpdated(param);
}

double Compute::UpdateRows(int param, float rate, int64_t begin, int64_t end, const float* gradient) {
  const StoredParam& stored = params_->param(param);
  if (stored.frozen()) return 0;
  const int64_t row = stored.whole.count(1), count = (end - begin) * row;
  const SgdCoefficients coefficients =
      SgdCoefficientsFor(model_.options().solver, rate, stored.lr_mult, stored.decay_mult, gradient_scale_);
  SgdUpdate(coefficients, count, gradient, params_->history(param).data() + begin * row,
            params_->values(param).data() + begin * row);
  return SumOfSquares(gradient, count);
}

Status Compute::FinishExchange(int64_t clock) {
  if (exchanged_ >= clock) return OkStatus();
  HP_RETURN_IF_ERROR(exchange_->Finish(clock));
  exchanged_ = clock;
  return OkStatus();
}

void Compute::AddSquares(const NetStep& step, double squares) {
  if (model_.data_parallel() && model_.node().index > 0) return;  // every replica has the same gradients
  const double sum = part_.sum_of_squares() + squares;
  if (!std::isfinite(sum) && std::isfinite(part_.sum_of_squares()) && part_.finite()) part_.set_layer(step.name);
  part_.set_sum_of_squares(sum);
}

void Compute::AddSquares(const NetStep& step) {
  for (int param : step.params) {
    const std::span<const float> gradient = params_->gradient(param);
    AddSquares(step, SumOfSquares(gradient.data(), static_cast<int64_t>(gradient.size())));
  }
}

Status Compute::Norm(int64_t clock) {
  if (model_.data_parallel()) HP_RETURN_IF_ERROR(FinishExchange(clock));
  for (size_t unit = 0; unit < model_.unit_steps().size(); ++unit) AddSquares(StepOfUnit(static_cast<int>(unit)));
  return OkStatus();
}

Status Compute::Update(const Task& task) {
  const NetStep& step = StepOfUnit(task.unit);
  const float rate = LearningRate(model_.options().solver, static_cast<int>(task.clock));
  if (model_.updates_in_pieces(step)) {
    UpdateInPieces(step, rate);
    return OkStatus();
  }
  if (!model_.plan().wait_for_verdict) {
    if (model_.plan().units[task.unit].deferred) DeferredGradient(step);
    if (model_.data_parallel()) HP_RETURN_IF_ERROR(FinishExchange(task.clock));
    AddSquares(step);
  }
  for (int param : step.params) {
    if (params_->param(param).frozen()) continue;
    UpdateWhole(param, rate);
  }
  return OkStatus();
}

void Compute::UpdateWhole(int param, float rate) {
  const StoredParam& stored = params_->param(param);
  SgdUpdate(SgdCoefficientsFor(model_.options().solver, rate, stored.lr_mult, stored.decay_mult, gradient_scale_),
            params_->count(param), params_->gradient(param).data(), params_->history(param).data(),
            params_->values(param).data());
  params_->MarkUpdated(param);
}

VerdictPart Compute::TakeVerdictPart(int64_t clock) {
  VerdictPart part = part_;
  part.set_clock(clock);
  part_.Clear();
  return part;
}

}  // namespace hp

#include "node/compute.h"

#include "solvers/lr_policy.h"
#include "solvers/sgd.h"

#include "glog/logging.h"
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hp {
namespace {

// Rows of a gradient that are made and used up together: 24 rows of fc6 of AlexNet are 0.9 MB.
constexpr int64_t kPieceRows = 24;

}  // namespace

StatusOr<std::unique_ptr<Compute>> Compute::Create(const NodeModel& model, Options options) {
  std::unique_ptr<Compute> compute(new Compute(model, std::move(options)));
  HP_RETURN_IF_ERROR(compute->Allocate());
  return compute;
}

Status Compute::Allocate() {
  Device* const device = options_.device;
  const ParamStore& params = *options_.params;
  HP_ASSIGN_OR_RETURN(SolverPool pool, SolverPool::Create(device, model_.plan().pool_size, model_.arena_bytes()));
  pool_ = std::make_unique<SolverPool>(std::move(pool));
  HP_ASSIGN_OR_RETURN(scratch_, device->Allocate(model_.scratch_bytes() + 64));
  for (size_t row : model_.any_net(true).update_row_bytes()) {
    HP_ASSIGN_OR_RETURN(Buffer matrix, device->Allocate(row * model_.schedule().update_rows()));
    matrix_rows_.push_back(matrix.data());
    matrices_.push_back(std::move(matrix));
  }
  for (int i = 0; i < params.size(); ++i) {
    // Ops write a gradient for every parameter of a layer that learns; that of a frozen one is not looked at.
    const bool frozen = params.param(i).frozen();
    HP_ASSIGN_OR_RETURN(Buffer unused, device->Allocate(frozen ? params.count(i) * sizeof(float) : 0));
    gradients_.push_back(frozen ? unused.floats() : params.gradient(i).data());
    unused_gradients_.push_back(std::move(unused));
  }
  for (bool train : {true, false}) {
    if (!train && !model_.tests()) continue;
    for (int64_t rows : model_.schedule().RowCounts(train)) {
      const NodeNet& net = model_.net(train, rows);
      for (const NodeParam& param : net.params()) param_index_[&net].push_back(params.Find(param.layer, param.blob));
    }
  }
  squares_.assign(params.size(), 0);
  if (!device->is_host()) {
    HP_ASSIGN_OR_RETURN(bridge_, HostBridge::Create(BridgeNeedsOf(model_), device, options_.staged));
    HP_ASSIGN_OR_RETURN(ahead_, ImagesAhead::Create(model_, device, options_.train_input));
  }
  const std::vector<MsgId> ids = model_.schedule().TrainIds(0, model_.replica());
  if (!ids.empty()) {
    first_id_ = ids.front();
    last_id_ = ids.back();
  }
  return device->Synchronize();
}

std::vector<std::span<std::byte>> Compute::shared_memory() const {
  if (bridge_ && bridge_->staged()) return {bridge_->staging()};
  std::vector<std::span<std::byte>> memory = {pool_->memory()};
  for (const Buffer& matrix : matrices_) memory.push_back(matrix.span());
  return memory;
}

const NodeNet& Compute::NetOf(MsgId id) const { return model_.net(id.train(), model_.schedule().SamplesOfId(id).rows); }

NetRun Compute::MakeRun(int solver, MsgId id, std::vector<ParamView>* views) const {
  const IdSamples samples = model_.schedule().SamplesOfId(id);
  const JobShape& shape = model_.schedule().shape();
  NetRun run;
  run.arena = pool_->arena(solver);
  run.update_matrices = matrix_rows_;
  run.update_row = samples.batch * shape.train_batch + samples.first_row;
  run.scratch = scratch_.data();
  run.gradients = gradients_;
  run.batch.train = id.train();
  run.batch.first_sample = samples.first_sample;
  run.batch.global_rows = id.train() ? shape.train_batch : shape.test_batch;
  if (views == nullptr) return run;
  for (int i : param_index_.at(&NetOf(id))) views->push_back(options_.params->View(i));
  run.params = *views;
  return run;
}

std::span<std::byte> Compute::Place(int solver, MsgId id, int port) const {
  const NodeNet& net = NetOf(id);
  if (bridge_ && bridge_->staged()) return bridge_->Place(solver, net, port);
  return net.BufferSpan(net.ports()[port].buffer, MakeRun(solver, id, nullptr));
}

Device::RepeatKey Compute::KeyOf(RepeatKind kind, int part, const NodeNet& net, const NetRun& run) const {
  const uint64_t row = net.update_row_bytes().empty() ? 0 : static_cast<uint64_t>(run.update_row);
  return {reinterpret_cast<uint64_t>(&net),
          reinterpret_cast<uint64_t>(run.arena),
          kind,
          static_cast<uint64_t>(part),
          row,
          run.accumulate};
}

// --- Tasks

Status Compute::Enqueue(const Task& task, Device::Mark* done) {
  HP_RETURN_IF_ERROR(EnqueueWork(task));
  if (ahead_) ahead_->Advance();
  options_.device->Order(Device::kCompute, Device::kCopyOut);
  *done = options_.device->Record(Device::kCopyOut);
  return OkStatus();
}

Status Compute::EnqueueWork(const Task& task) {
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

void Compute::Collect(const Task& task) {
  switch (task.kind) {
    case Task::kForward:
      return CollectStatistics(task);
    case Task::kNorm:
      for (int unit : AllUnits()) CollectSquares(StepOfUnit(unit));
      return;
    case Task::kUpdate:
      if (model_.plan().wait_for_verdict) return;
      for (int unit : UnitsOf(task)) CollectSquares(StepOfUnit(unit));
      return;
    default:
      return;
  }
}

// What a task reads from the host: on the host's device in place.
void Compute::UseInputs(const Task& task, const NodeNet& net, NetRun* run) {
  run->batch.loss_scale = loss_scale_;
  if (bridge_ && task.kind != Task::kForward) return bridge_->UseInputs(task.solver, net, run);
  Input* const input = task.id.train() ? options_.train_input : options_.test_input;
  float* const images = net.reads_images() ? input->images(task.id) : nullptr;
  std::span<const float> labels;
  if (net.reads_labels(task.segment)) labels = options_.labels->BatchOf(task.id);
  const IdSamples samples = model_.schedule().SamplesOfId(task.id);
  if (bridge_) {
    const bool reads = images != nullptr && task.segment == 0;
    const bool here = reads && ahead_ && ahead_->Take(task.id, bridge_->images(task.solver), net.images_bytes());
    bridge_->BringInputs(task.solver, net, task.segment, reads && !here ? images : nullptr, labels, samples.first_row,
                         run);
    return;
  }
  run->images = images;
  run->batch.batch_labels = labels;
  if (!labels.empty()) run->batch.labels = labels.subspan(samples.first_row, samples.rows);
}

// Work that is repeated does not ask for packed parameters again.
void RefreshPacked(const NetRun& run) {
  for (const ParamView& view : run.params) view.packed->Refresh(view.version);
}

void Compute::Forward(const Task& task) {
  const NodeNet& net = NetOf(task.id);
  std::vector<ParamView> views;
  NetRun run = MakeRun(task.solver, task.id, &views);
  UseInputs(task, net, &run);
  if (!bridge_) return net.Forward(task.segment, run);
  bridge_->BringPorts(task.solver, net, run, task.segment, false);
  RefreshPacked(run);
  options_.device->Repeat(KeyOf(kRepeatForward, task.segment, net, run), [&] { net.Forward(task.segment, run); });
  bridge_->SendPorts(task.solver, net, run, task.segment, false);
  bridge_->FetchStatistics(task.solver, net, run);
}

void Compute::CollectStatistics(const Task& task) {
  const NodeNet& net = NetOf(task.id);
  const NetRun run = MakeRun(task.solver, task.id, nullptr);
  std::vector<float> values;
  int last_segment = -1;
  for (size_t i = 0; i < net.outputs().size(); ++i) {
    const NetOutput& output = net.outputs()[i];
    last_segment = std::max(last_segment, output.segment);
    values.push_back(bridge_ ? bridge_->statistics(task.solver)[i] : net.ValueOf(output.tensor, run).floats()[0]);
    const bool bad = output.segment == task.segment && task.id.train() && !std::isfinite(values.back());
    if (bad && part_.finite()) {
      part_.set_finite(false);
      part_.set_layer(output.layer);
    }
  }
  if (last_segment == task.segment) options_.on_statistics(task.id, values);
}

void Compute::Backward(const Task& task) {
  const NodeNet& net = NetOf(task.id);
  std::vector<ParamView> views;
  NetRun run = MakeRun(task.solver, task.id, &views);
  UseInputs(task, net, &run);
  run.accumulate = Accumulates(task.id);
  const bool exchanges = InFirstClock(task.id) == last_id_ && model_.table().replicas() > 1;
  const auto work = [&] {
    net.Backward(task.segment, run, model_.data_parallel(), [&](const NetStep& step) {
      if (!exchanges) return;
      for (int param : step.params) {
        const std::span<float> gradient = options_.params->gradient(param);
        if (!gradient.empty()) options_.exchange->Add(task.clock, param, gradient);
      }
    });
  };
  if (!bridge_) return work();
  bridge_->BringPorts(task.solver, net, run, task.segment, true);
  RefreshPacked(run);
  if (exchanges) {
    work();  // what is repeated gives nothing to the exchange
  } else {
    options_.device->Repeat(KeyOf(kRepeatBackward, task.segment, net, run), work);
  }
  bridge_->SendPorts(task.solver, net, run, task.segment, true);
}

void Compute::WeightGradient(const Task& task) {
  if (task.id.bits == 0) return DeferredGradient(StepOfUnit(task.unit));
  const NodeNet& net = NetOf(task.id);
  std::vector<ParamView> views;
  NetRun run = MakeRun(task.solver, task.id, &views);
  UseInputs(task, net, &run);
  run.accumulate = Accumulates(task.id);
  const NetStep& step = net.steps()[model_.unit_steps()[task.unit]];
  options_.device->Repeat(KeyOf(kRepeatWeights, task.unit, net, run), [&] { net.WeightGradient(step, run); });
}

// --- Updates

void Compute::WithUpdateArgs(const NetStep& step, const std::function<void(Op&, const OpArgs&)>& use) {
  const NodeNet& net = model_.any_net(true);
  NetRun run;
  run.arena = pool_->arena(0);
  run.update_matrices = matrix_rows_;
  run.scratch = scratch_.data();
  run.gradients = gradients_;
  std::vector<ParamView> views;
  for (int i : param_index_.at(&net)) views.push_back(options_.params->View(i));
  run.params = views;
  net.WithUpdateArgs(step, run, use);
}

void Compute::InPieces(const NetStep& step, const PieceFunction& use) {
  const StoredParam& weights = options_.params->param(step.params[0]);
  const int64_t rows = weights.end_row - weights.begin_row, pieces = (rows + kPieceRows - 1) / kPieceRows;
  WithUpdateArgs(step, [&](Op& op, const OpArgs& args) {
    op.BeginParamsRows(args);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t begin = p * kPieceRows;
      use(op, args, begin, std::min(begin + kPieceRows, rows));
    }
  });
}

// In pieces where UpdateInPieces has them: its bits do not depend on whether the update waits for the verdict.
void Compute::DeferredGradient(const NetStep& step) {
  if (!step.update_op->has_params_rows()) {
    return WithUpdateArgs(step, [](Op& op, const OpArgs& args) { op.BackwardParams(args); });
  }
  const int64_t row = options_.params->param(step.params[0]).whole.count(1);
  const bool bias = step.params.size() > 1;
  InPieces(step, [row, bias](const Op& op, const OpArgs& args, int64_t begin, int64_t end) {
    op.BackwardParamsRows(args, begin, end, args.d_params[0] + begin * row, bias ? args.d_params[1] + begin : nullptr);
  });
}

// A few rows of the gradient at a time: they are still in the cache when the update reads them, and the gradient of a
// large layer never goes to memory and back. The sums of squares are added in the order of the rows. Host's device
// only.
void Compute::UpdateInPieces(const NetStep& step, float rate) {
  const int weights = step.params[0], bias = step.params.size() > 1 ? step.params[1] : -1;
  const StoredParam& stored = options_.params->param(weights);
  const int64_t rows = stored.end_row - stored.begin_row, row = stored.whole.count(1);
  std::vector<double> squares((rows + kPieceRows - 1) / kPieceRows, 0);
  pieces_.resize(omp_get_max_threads());
  for (std::vector<float>& piece : pieces_) piece.resize(std::max<size_t>(piece.size(), kPieceRows * (row + 1)));
  InPieces(step, [&](const Op& op, const OpArgs& args, int64_t begin, int64_t end) {
    float* d_weights = pieces_[omp_get_thread_num()].data();
    float* d_bias = bias < 0 ? nullptr : d_weights + kPieceRows * row;
    op.BackwardParamsRows(args, begin, end, d_weights, d_bias);
    double& sum = squares[begin / kPieceRows];
    sum = UpdateRows(weights, rate, begin, end, d_weights);
    if (bias >= 0) sum += UpdateRows(bias, rate, begin, end, d_bias);
  });
  for (int param : step.params) {
    squares_[param] = 0;
    options_.params->MarkUpdated(param);
  }
  for (double sum : squares) squares_[weights] += sum;
}

SgdCoefficients Compute::CoefficientsOf(int param, float rate) const {
  const StoredParam& stored = options_.params->param(param);
  return SgdCoefficientsFor(model_.options().solver, rate, stored.lr_mult, stored.decay_mult, gradient_scale_);
}

double Compute::UpdateRows(int param, float rate, int64_t begin, int64_t end, const float* gradient) {
  const StoredParam& stored = options_.params->param(param);
  if (stored.frozen()) return 0;
  const int64_t row = stored.whole.count(1), count = (end - begin) * row;
  const SgdPart part = {CoefficientsOf(param, rate), count, gradient,
                        options_.params->history(param).data() + begin * row,
                        options_.params->values(param).data() + begin * row};
  options_.backend->SgdUpdate({&part, 1});
  double squares = 0;
  const SquaresPart sum = {gradient, count, &squares};
  options_.backend->SumsOfSquares({&sum, 1});
  return squares;
}

Status Compute::FinishExchange(int64_t clock) {
  if (exchanged_ >= clock) return OkStatus();
  HP_RETURN_IF_ERROR(options_.exchange->Finish(clock));
  exchanged_ = clock;
  return OkStatus();
}

void Compute::EnqueueSquares(const std::vector<int>& units) {
  std::vector<int> wanted;
  for (int unit : units) wanted.insert(wanted.end(), StepOfUnit(unit).params.begin(), StepOfUnit(unit).params.end());
  std::sort(wanted.begin(), wanted.end());
  std::vector<SquaresPart> parts;
  for (int param : wanted) {
    const std::span<const float> gradient = options_.params->gradient(param);
    parts.push_back({gradient.data(), static_cast<int64_t>(gradient.size()),
                     bridge_ ? bridge_->device_squares(param) : &squares_[param]});
  }
  options_.backend->SumsOfSquares(parts);
  if (!bridge_) return;
  options_.device->Order(Device::kCompute, Device::kCopyOut);
  for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
    while (end < wanted.size() && wanted[end] - wanted[begin] == static_cast<int>(end - begin)) ++end;
    bridge_->FetchSquares(wanted[begin], static_cast<int>(end - begin));
  }
}

void Compute::CollectSquares(const NetStep& step) {
  if (model_.data_parallel() && model_.node().index > 0) return;  // every replica has the same gradients
  const double unscaled = 1 / (double{loss_scale_} * loss_scale_);
  for (int param : step.params) {
    const double sum = part_.sum_of_squares() + unscaled * (bridge_ ? bridge_->squares(param) : squares_[param]);
    if (!std::isfinite(sum) && std::isfinite(part_.sum_of_squares()) && part_.finite()) part_.set_layer(step.name);
    part_.set_sum_of_squares(sum);
  }
}

Status Compute::Norm(int64_t clock) {
  if (model_.data_parallel()) HP_RETURN_IF_ERROR(FinishExchange(clock));
  EnqueueSquares(AllUnits());
  return OkStatus();
}

void Compute::OnVerdict(const Verdict& verdict) {
  gradient_scale_ = static_cast<float>(verdict.scale()) / loss_scale_;
  skip_ = verdict.skip();
  loss_scale_ = static_cast<float>(verdict.next_loss_scale());
}

std::vector<int> Compute::AllUnits() const {
  std::vector<int> units(model_.unit_steps().size());
  std::iota(units.begin(), units.end(), 0);
  return units;
}

std::vector<int> Compute::UnitsOf(const Task& task) {
  std::vector<int> units = {task.unit};
  units.insert(units.end(), task.more_units.begin(), task.more_units.end());
  return units;
}

Status Compute::Update(const Task& task) {
  if (skip_) return OkStatus();
  const float rate = LearningRate(model_.options().solver, static_cast<int>(task.clock));
  const bool waited = model_.plan().wait_for_verdict;
  std::vector<int> whole;  // the units whose gradients are in memory
  for (int unit : UnitsOf(task)) {
    const NetStep& step = StepOfUnit(unit);
    if (model_.updates_in_pieces(step)) {
      UpdateInPieces(step, rate);
      continue;
    }
    if (!waited && model_.plan().units[unit].deferred) DeferredGradient(step);
    whole.push_back(unit);
  }
  if (whole.empty()) return OkStatus();
  if (!waited) {
    if (model_.data_parallel()) HP_RETURN_IF_ERROR(FinishExchange(task.clock));
    EnqueueSquares(whole);
  }
  UpdateWhole(whole, rate);
  return OkStatus();
}

void Compute::UpdateWhole(const std::vector<int>& units, float rate) {
  ParamStore* const params = options_.params;
  std::vector<SgdPart> parts;
  for (int unit : units) {
    for (int param : StepOfUnit(unit).params) {
      if (params->param(param).frozen()) continue;
      parts.push_back({CoefficientsOf(param, rate), params->count(param), params->gradient(param).data(),
                       params->history(param).data(), params->values(param).data()});
      params->MarkUpdated(param);
    }
  }
  options_.backend->SgdUpdate(parts);
}

VerdictPart Compute::TakeVerdictPart(int64_t clock) {
  VerdictPart part = part_;
  part.set_clock(clock);
  part_.Clear();
  return part;
}

}  // namespace hp

// A layer's gradient comes from one of three places, and the update does the same with each: added up by the
// micro-batches' own tasks, or summed by the exchange, it stands in the parameter store; deferred, it is one product
// over all rows of the update, made here; on a parameter server it is the sum of what replicas sent. A deferred one on
// the host is made, used and forgotten a few rows at a time while they are in the cache, unless the verdict needs all
// norms before any update. Its bits are the same either way, since its pieces are.
#include "engine/updater.h"

#include "solvers/learning_rates.h"
#include "solvers/update_rule.h"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <span>

namespace hp {
namespace {

// Rows of a sampled gradient that one thread applies.
constexpr int64_t kSampledRows = 24;

}  // namespace

StatusOr<std::unique_ptr<Updater>> Updater::Create(const NodeModel& model, const Options& options) {
  std::unique_ptr<Updater> updater(new Updater(model, options));
  HP_ASSIGN_OR_RETURN(updater->norms_, GradientNorms::Create(model, {options.device, options.backend, options.params}));
  return updater;
}

// --- Gradients of the whole update

const UpdateSample* Updater::SampleOf(const NetStep& step) const {
  return step.sample < 0 ? nullptr : &options_.sampler->samples().at(step.sample);
}

int64_t Updater::RowsOf(const NetStep& step) const {
  const UpdateSample* const sample = SampleOf(step);
  return sample != nullptr ? sample->rows() : options_.params->param(step.params[0]).block.rows();
}

void Updater::InPieces(const NetStep& step, const PieceFunction& use) {
  const int64_t rows = RowsOf(step), each = step.update_op->piece_rows(), pieces = (rows + each - 1) / each;
  options_.workspace->WithUpdateArgs(step, options_.sampler->samples(), [&](Op& op, const OpArgs& args) {
    op.BeginParamsRows(args);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pieces; ++p) {
      use(op, args, p * each, std::min((p + 1) * each, rows));
    }
  });
}

void Updater::DeferredGradient(int64_t clock, int group) {
  if (serves(group)) return options_.server->Sum(clock, group);
  DeferredGradient(StepOfGroup(group));
}

// In pieces where UpdateInPieces has them: its bits do not depend on whether the update waits for the verdict.
void Updater::DeferredGradient(const NetStep& step) {
  if (!step.update_op->has_params_rows()) {
    return options_.workspace->WithUpdateArgs(step, options_.sampler->samples(),
                                              [](Op& op, const OpArgs& args) { op.BackwardParams(args); });
  }
  const int64_t row = options_.params->param(step.params[0]).block.cols();
  const bool bias = step.params.size() > 1;
  if (SampleOf(step) != nullptr) {
    const std::span<float> unused = options_.params->gradient(step.params[0]).subspan(RowsOf(step) * row);
    std::fill(unused.begin(), unused.end(), 0.0f);
  }
  InPieces(step, [row, bias](const Op& op, const OpArgs& args, int64_t begin, int64_t end) {
    op.BackwardParamsRows(args, begin, end, args.d_params[0] + begin * row, bias ? args.d_params[1] + begin : nullptr);
  });
}

// A few rows of the gradient at a time: they are still in the cache when the update reads them, and the gradient of a
// large layer never goes to memory and back. Copies of the weights that can be written in pieces are written there,
// too. Host's device only.
void Updater::UpdateInPieces(const NetStep& step, const StepSize& size) {
  const int weights = step.params[0], bias = step.params.size() > 1 ? step.params[1] : -1;
  const UpdateSample* const sample = SampleOf(step);
  const int64_t row = options_.params->param(weights).block.cols(), each = step.update_op->piece_rows();
  double check = 0;  // or a NaN
  // Of a sample's rows nobody keeps copies, and those of frozen weights are as they were.
  const bool refill = sample == nullptr && !options_.params->param(weights).frozen();
  PackedParams* const packed = options_.params->View(weights).packed;
  pieces_.resize(omp_get_max_threads());
  for (std::vector<float>& piece : pieces_) piece.resize(std::max<size_t>(piece.size(), each * (row + 1)));
  InPieces(step, [&](const Op& op, const OpArgs& args, int64_t begin, int64_t end) {
    float* d_weights = pieces_[omp_get_thread_num()].data();
    float* d_bias = bias < 0 ? nullptr : d_weights + each * row;
    op.BackwardParamsRows(args, begin, end, d_weights, d_bias);
    double found = ApplyRows(weights, size, begin, end, d_weights, sample);
    if (bias >= 0) found += ApplyRows(bias, size, begin, end, d_bias, nullptr);
    if (found != 0) {
#pragma omp atomic write
      check = found;
    }
    if (refill) packed->RefillRows(begin, end);
  });
  for (int param : step.params) {
    norms_->Set(size.clock, param, 0);
    if (!options_.params->param(param).frozen()) options_.params->MarkUpdated(param, size.clock + 1);
  }
  if (refill) packed->MarkRefilled(options_.params->View(weights).version);
  norms_->Set(size.clock, weights, check);
}

UpdateCoefficients Updater::CoefficientsOf(int param, const StepSize& size) const {
  const StoredParam& stored = options_.params->param(param);
  if (stored.average_keeps) return AverageCoefficients(model_.job().solver(), *stored.average_keeps);
  const caffe::SolverParameter& solver = model_.job().solver();
  float rate = size.rate, lr_mult = stored.lr_mult;
  if (size.norms != nullptr) {
    const auto& [gradient, values] = size.norms->at(param);
    rate = LarcRate(solver, rate, gradient, values, size.clip);
    lr_mult = 1;
  }
  return UpdateCoefficientsFor(solver, size.clock, rate, lr_mult, stored.decay_mult, size.gradient_scale);
}

UpdatePart Updater::UpdateOf(int param, const UpdateCoefficients& coefficients, const StepSize& size,
                             const Range& elements, const float* gradient) const {
  const auto from = [&elements](std::span<float> array) {
    return array.empty() ? nullptr : array.data() + elements.begin;
  };
  return {coefficients,
          elements.size(),
          gradient,
          from(options_.params->history(param, 1)),
          from(options_.params->values(param, size.clock + 1)),
          from(options_.params->history(param, 2))};
}

double Updater::ApplyRows(int param, const StepSize& size, int64_t begin, int64_t end, const float* gradient,
                          const UpdateSample* sample) {
  if (options_.params->param(param).frozen()) return 0;
  const int64_t row = options_.params->param(param).block.cols();
  const UpdateCoefficients coefficients = CoefficientsOf(param, size);
  double check = 0;
  const auto update = [&](int64_t rows, const float* of_rows, int64_t first) {
    UpdatePart part = UpdateOf(param, coefficients, size, {first * row, (first + rows) * row}, of_rows);
    part.not_finite = &check;
    options_.backend->UpdateParams({&part, 1});
  };
  if (sample == nullptr) {
    update(end - begin, gradient, begin);
  } else {
    for (int64_t r = begin; r < end; ++r) update(1, gradient + (r - begin) * row, sample->classes[r]);
  }
  return check;
}

Updater::Scales Updater::ScalesOf(int64_t clock) const {
  MutexLock lock(&mutex_);
  const auto found = scales_.find(clock);
  return found == scales_.end() ? Scales{.loss = options_.loss_scale} : found->second;
}

// No update of the next clock can be waiting for its own: the gradients that its norm is of are added after this one.
void Updater::OnVerdict(const Verdict& verdict) {
  if (!model_.plan().wait_for_verdict) return;
  Scales scales = ScalesOf(verdict.clock());
  scales.clip = verdict.scale();
  scales.gradient = static_cast<float>(verdict.scale()) / scales.loss;
  scales.skip = verdict.skip();
  scales.norms = norms_->OfWhole(verdict);
  MutexLock lock(&mutex_);
  scales_ = {{verdict.clock(), scales}, {verdict.clock() + 1, {.loss = static_cast<float>(verdict.next_loss_scale())}}};
}

std::vector<int> Updater::AllGroups() const {
  std::vector<int> groups(model_.plan().groups.size());
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

std::vector<int> Updater::GroupsOf(const Task& task) {
  std::vector<int> groups = {task.group};
  groups.insert(groups.end(), task.more_groups.begin(), task.more_groups.end());
  return groups;
}

void Updater::Update(const Task& task) {
  const Scales scales = ScalesOf(task.clock);
  if (scales.skip) return;
  const StepSize size{task.clock, options_.rates->At(task.clock), scales.gradient, scales.clip, scales.norms};
  const bool waited = model_.plan().wait_for_verdict;
  std::vector<int> whole;  // the groups whose gradients are in memory
  for (int group : GroupsOf(task)) {
    if (!serves(group) && model_.updates_in_pieces(StepOfGroup(group))) {
      UpdateInPieces(StepOfGroup(group), size);
      continue;
    }
    if (!waited && model_.plan().groups[group].deferred) DeferredGradient(task.clock, group);
    whole.push_back(group);
  }
  UpdateWhole(whole, size);
}

void Updater::UpdateSampled(const NetStep& step, const StepSize& size) {
  const int weights = step.params[0];
  const UpdateSample* const sample = SampleOf(step);
  const float* const gradient = options_.params->gradient(weights).data();
  const int64_t rows = RowsOf(step), row = options_.params->param(weights).block.cols();
  double check = 0;  // or a NaN
#pragma omp parallel for schedule(static) reduction(+ : check)
  for (int64_t begin = 0; begin < rows; begin += kSampledRows) {
    check += ApplyRows(weights, size, begin, std::min(begin + kSampledRows, rows), gradient + begin * row, sample);
  }
  if (!model_.plan().wait_for_verdict) norms_->Set(size.clock, weights, check);
  options_.params->MarkUpdated(weights, size.clock + 1);
}

void Updater::CopyValues(int param, int64_t clock) {
  if (options_.params->versions() == 1) return;
  constexpr int64_t kPiece = 1 << 14;
  const std::span<const float> from = options_.params->values(param, clock);
  float* const to = options_.params->values(param, clock + 1).data();
  const int64_t count = std::ssize(from);
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    std::copy_n(from.data() + begin, std::min(kPiece, count - begin), to + begin);
  }
}

void Updater::UpdateWhole(const std::vector<int>& groups, const StepSize& size) {
  ParamStore* const params = options_.params;
  std::vector<UpdatePart> parts;
  std::vector<int> checked;
  for (int group : groups) {
    if (!serves(group) && SampleOf(StepOfGroup(group)) != nullptr) {
      UpdateSampled(StepOfGroup(group), size);
      continue;
    }
    for (int param : model_.ParamsOf(group)) {
      if (params->param(param).frozen()) continue;
      CopyValues(param, size.clock);
      parts.push_back(UpdateOf(param, CoefficientsOf(param, size), size, {0, params->count(param)},
                               params->gradient(param).data()));
      params->MarkUpdated(param, size.clock + 1);
      const ParamView updated = params->View(param);
      parts.back().copy = updated.packed->WrittenByUpdate(updated.version);
      if (Checks(group, param)) {
        checked.push_back(param);
        parts.back().not_finite = norms_->Check(size.clock, param);
      }
    }
  }
  if (parts.empty()) return;
  options_.backend->UpdateParams(parts);
  if (!checked.empty()) norms_->FetchChecks(size.clock, std::move(checked));
}

bool Updater::Checks(int group, int param) const {
  if (model_.plan().wait_for_verdict || !model_.plan().groups[group].counts) return false;
  return !options_.params->param(param).average_keeps;  // statistics are no gradient
}

}  // namespace hp

#include "commands/net_sweeper.h"

#include "base/memory_room.h"
#include "solvers/param_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace hp {
namespace {

/// Numbers between -scale and scale: products of zeros may be faster than those of numbers.
void FillRandom(std::span<float> values, float scale) {
  uint32_t state = 0x9e3779b9;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = scale * (static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
}

}  // namespace

StatusOr<SweepParameters> SweepParameters::Create(const NodePlan& plan) {
  size_t bytes = 0;
  for (const ParamPlan& param : plan.params()) bytes += 2 * param.block.count() * sizeof(float);
  const MemoryRoom room = HostMemoryRoom();
  if (bytes > static_cast<size_t>(room.bytes)) {
    return InvalidArgument("the net's parameters and their gradients need %s, %s %s; take a smaller net",
                           MegaBytes(bytes).c_str(), room.limit.c_str(),
                           MegaBytes(static_cast<size_t>(room.bytes)).c_str());
  }
  SweepParameters parameters;
  for (const ParamPlan& param : plan.params()) {
    const size_t count = param.block.count();
    HP_ASSIGN_OR_RETURN(Buffer values, Buffer::Allocate(count * sizeof(float)));
    HP_ASSIGN_OR_RETURN(Buffer gradient, Buffer::Allocate(count * sizeof(float)));
    const double inputs = std::max<double>(1, static_cast<double>(ColumnsOf(param.spec.shape)));
    FillRandom({values.floats(), count}, static_cast<float>(std::sqrt(3 / inputs)));
    parameters.packed_.push_back(std::make_unique<PackedParams>());
    parameters.views_.push_back({values.floats(), 1, parameters.packed_.back().get()});
    parameters.gradients_.push_back(gradient.floats());
    parameters.memory_.push_back(std::move(values));
    parameters.memory_.push_back(std::move(gradient));
  }
  return parameters;
}

StatusOr<std::unique_ptr<NetSweeper>> NetSweeper::Create(const NodePlan& plan, Backend* backend, int64_t rows,
                                                         const SweepParameters& parameters) {
  std::unique_ptr<NetSweeper> sweeper(new NetSweeper());
  HP_ASSIGN_OR_RETURN(sweeper->net_, NodeNet::Create(plan, {.backend = backend}, rows));
  const NodeNet& net = *sweeper->net_;
  const MemoryRoom room = HostMemoryRoom();
  const size_t bytes = net.arena_bytes() + net.scratch_bytes() + net.images_bytes();
  if (bytes > static_cast<size_t>(room.bytes)) {
    return InvalidArgument("%lld row(s) of the net need %s, %s %s", static_cast<long long>(rows),
                           MegaBytes(bytes).c_str(), room.limit.c_str(),
                           MegaBytes(static_cast<size_t>(room.bytes)).c_str());
  }
  HP_ASSIGN_OR_RETURN(sweeper->arena_, Buffer::Allocate(net.arena_bytes() + 64));
  HP_ASSIGN_OR_RETURN(sweeper->scratch_, Buffer::Allocate(net.scratch_bytes() + 64));
  HP_ASSIGN_OR_RETURN(sweeper->images_, Buffer::Allocate(net.images_bytes() + 64));
  FillRandom({sweeper->images_.floats(), net.images_bytes() / sizeof(float)}, 1);
  sweeper->labels_.assign(rows, 0);
  NetRun& run = sweeper->run_;
  run.arena = sweeper->arena_.data();
  run.scratch = sweeper->scratch_.data();
  run.images = sweeper->images_.floats();
  run.params = parameters.views();
  run.gradients = parameters.gradients();
  run.batch.train = plan.graph().phase().train();
  run.batch.global_rows = rows;
  run.batch.labels = run.batch.batch_labels = sweeper->labels_;
  const std::span<const float> behind = net.LabelsBehind(run.images);
  if (!behind.empty()) {
    std::fill_n(run.images + (behind.data() - run.images), behind.size(), 0.0f);
    run.batch.labels = behind;
  }
  return sweeper;
}

void NetSweeper::Sweep(const OnPass& on_pass) {
  const auto timed = [&](const NetStep& step, Pass pass, const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (on_pass) on_pass(step, pass, took.count());
  };
  for (const NetStep& step : net_->steps()) {
    timed(step, Pass::kForward, [&] { net_->ForwardStep(step, run_); });
  }
  for (auto step = net_->steps().rbegin(); step != net_->steps().rend(); ++step) {
    timed(*step, Pass::kInputGradient, [&] { net_->InputGradient(*step, run_); });
    if (step->learns) timed(*step, Pass::kWeightGradient, [&] { net_->WeightGradient(*step, run_); });
  }
}

}  // namespace hp

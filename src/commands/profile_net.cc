// The net is that of one node with all layers, as in training without a table, and its ops are called step by step in
// the order of a forward and a backward pass: what a step reads is there. The first sweep packs weights and warms
// caches; of the following ones each pass keeps its fastest time. Row counts grow by 8, so that the line through them
// tells what a pass costs by itself (reading the weights) from what each row costs.
#include "commands/profile_net.h"

#include "backend/backend.h"
#include "base/cores.h"
#include "base/format.h"
#include "base/memory_room.h"
#include "engine/compute_threads.h"
#include "net/node_net.h"
#include "scheduler/planner/layer_time.h"
#include "solvers/param_store.h"
#include "tensor/buffer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace hp {
namespace {

constexpr int kGrowth = 8;      // from one number of rows to the next
constexpr int kMostSweeps = 5;  // that are timed

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Numbers between -scale and scale: products of zeros may be faster than those of numbers.
void FillRandom(std::span<float> values, float scale) {
  uint32_t state = 0x9e3779b9;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = scale * (static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
}

/// The parameters of the net and their gradients.
class Parameters {
 public:
  static StatusOr<Parameters> Create(const NodePlan& plan) {
    size_t bytes = 0;
    for (const ParamPlan& param : plan.params()) bytes += 2 * param.block.count() * sizeof(float);
    const MemoryRoom room = HostMemoryRoom();
    if (bytes > static_cast<size_t>(room.bytes)) {
      return InvalidArgument("the net's parameters and their gradients need %s, %s %s; profile a smaller net",
                             MegaBytes(bytes).c_str(), room.limit.c_str(),
                             MegaBytes(static_cast<size_t>(room.bytes)).c_str());
    }
    Parameters parameters;
    for (const ParamPlan& param : plan.params()) {
      const size_t count = param.block.count();
      HP_ASSIGN_OR_RETURN(Buffer values, Buffer::Allocate(count * sizeof(float)));
      HP_ASSIGN_OR_RETURN(Buffer gradient, Buffer::Allocate(count * sizeof(float)));
      const double inputs = std::max<double>(1, static_cast<double>(ColumnsOf(param.spec.shape)));
      FillRandom({values.floats(), count}, static_cast<float>(std::sqrt(3 / inputs)));
      parameters.packed_.push_back(std::make_unique<PackedParams>());
      parameters.views.push_back({values.floats(), 1, parameters.packed_.back().get()});
      parameters.gradients.push_back(gradient.floats());
      parameters.memory_.push_back(std::move(values));
      parameters.memory_.push_back(std::move(gradient));
    }
    return parameters;
  }

  std::vector<ParamView> views;
  std::vector<float*> gradients;

 private:
  std::vector<Buffer> memory_;
  std::vector<std::unique_ptr<PackedParams>> packed_;
};

/// Seconds of the three passes of a layer: the fastest of all sweeps.
struct Passes {
  double seconds[3] = {std::numeric_limits<double>::max(), 0, 0};
};
using TimesByLayer = std::map<std::string, Passes>;

/// One number of rows.
class Sweeper {
 public:
  static StatusOr<std::unique_ptr<Sweeper>> Create(const NodePlan& plan, Backend* backend, int64_t rows,
                                                   const Parameters& parameters) {
    std::unique_ptr<Sweeper> sweeper(new Sweeper());
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
    run.params = parameters.views;
    run.gradients = parameters.gradients;
    run.batch.global_rows = rows;
    run.batch.labels = run.batch.batch_labels = sweeper->labels_;
    return sweeper;
  }

  /// @param times null: only to warm up.
  void Sweep(TimesByLayer* times) {
    for (const NetStep& step : net_->steps()) {
      Time(step, Pass::kForward, times, [&] { net_->ForwardStep(step, run_); });
    }
    for (auto step = net_->steps().rbegin(); step != net_->steps().rend(); ++step) {
      Time(*step, Pass::kInputGradient, times, [&] { net_->InputGradient(*step, run_); });
      if (step->learns) Time(*step, Pass::kWeightGradient, times, [&] { net_->WeightGradient(*step, run_); });
    }
    sweeps_ += times != nullptr;
  }

 private:
  template <typename Work>
  void Time(const NetStep& step, Pass pass, TimesByLayer* times, const Work& work) {
    const double begin = Now();
    work();
    if (times == nullptr || step.layer == nullptr) return;
    double& fastest = (*times)[step.layer->name()].seconds[static_cast<int>(pass)];
    fastest = sweeps_ == 0 ? Now() - begin : std::min(fastest, Now() - begin);
  }

  std::unique_ptr<NodeNet> net_;
  Buffer arena_, scratch_, images_;
  std::vector<float> labels_;
  NetRun run_;
  int sweeps_ = 0;
};

void AddTimes(const TimesByLayer& times, int64_t rows, std::map<std::string, LayerProfile>* layers) {
  const auto nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  for (const auto& [name, passes] : times) {
    LayerProfile& layer = (*layers)[name];
    layer.set_layer(name);
    LayerTiming* const timing = layer.add_timing();
    timing->set_rows(rows);
    timing->set_forward_ns(nanoseconds(passes.seconds[0]));
    timing->set_input_gradient_ns(nanoseconds(passes.seconds[1]));
    timing->set_weight_gradient_ns(nanoseconds(passes.seconds[2]));
  }
}

/// Bytes in a second of a = b + c over more than the caches hold, with the calling thread's team; 0: no memory for it.
double MeasureMemory() {
  constexpr int64_t kCount = int64_t{1} << 24;
  std::vector<Buffer> arrays;
  for (int i = 0; i < 3; ++i) {
    StatusOr<Buffer> buffer = Buffer::Allocate(kCount * sizeof(float));
    if (!buffer.ok()) return 0;
    arrays.push_back(*std::move(buffer));
    std::fill_n(arrays.back().floats(), kCount, 1.0F);
  }
  float* const a = arrays[0].floats();
  const float* const b = arrays[1].floats();
  const float* const c = arrays[2].floats();
  double fastest = std::numeric_limits<double>::max();
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    const double begin = Now();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < kCount; ++i) a[i] = b[i] + c[i];
    fastest = std::min(fastest, Now() - begin);
  }
  return 3.0 * kCount * sizeof(float) / fastest;
}

}  // namespace

StatusOr<ProfileConfig> ProfileNet(const std::shared_ptr<const caffe::NetParameter>& net,
                                   const ProfileOptions& options) {
  const int threads = options.threads > 0 ? options.threads : AvailableCores();
  HP_RETURN_IF_ERROR(TakeComputeThreads(threads, Format("the profile needs %d threads", threads)));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net, caffe::TRAIN));
  const StageLayout layout{{{true, {0}}}, std::vector<int>(net->layer_size(), 0), {}};
  HP_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(*graph, options.sample, layout));
  HP_ASSIGN_OR_RETURN(const NodePlan plan, NodePlan::Create(*graph, placement, {.sample = options.sample}));
  HP_ASSIGN_OR_RETURN(const Parameters parameters, Parameters::Create(plan));
  const std::unique_ptr<Backend> backend = MakeCpuBackend();

  ProfileConfig profile;
  profile.set_net_hash(ProfileHash(*net));
  profile.set_net(net->name());
  profile.set_host(options.host);
  profile.set_threads(threads);
  for (const int64_t dim : options.sample.dims()) profile.add_sample(dim);
  std::map<std::string, LayerProfile> layers;
  const int64_t most = std::max<int64_t>(1, graph->batch_size());
  double left = options.seconds, sweep = 0;
  for (int64_t rows = 1; rows <= most; rows *= kGrowth) {
    // The next number of rows takes about kGrowth times as long, twice: to warm up and to measure.
    if (rows > 1 && 2 * kGrowth * sweep > left) break;
    StatusOr<std::unique_ptr<Sweeper>> sweeper = Sweeper::Create(plan, backend.get(), rows, parameters);
    if (!sweeper.ok() && rows == 1) return sweeper.status();
    if (!sweeper.ok()) break;  // what fewer rows say will do
    const double begin = Now();
    (*sweeper)->Sweep(nullptr);
    TimesByLayer times;
    for (int n = 0; n < kMostSweeps; ++n) {
      const double sweep_begin = Now();
      (*sweeper)->Sweep(&times);
      sweep = Now() - sweep_begin;
      if (Now() - begin + (1 + 2 * kGrowth) * sweep > left) break;
    }
    left -= Now() - begin;
    AddTimes(times, rows, &layers);
  }
  // In the order of the net.
  for (const GraphLayer& layer : graph->layers()) {
    const auto found = layers.find(layer.traits.name());
    if (found != layers.end()) *profile.add_layer() = found->second;
  }
  const double memory = MeasureMemory();
  if (memory > 0) profile.set_memory_gb_per_s(memory / 1e9);
  return profile;
}

}  // namespace hp

// The net is that of one node with all layers, as in training without a table, and its ops are called step by step in
// the order of a forward and a backward pass: what a step reads is there. The first sweep packs weights and warms
// caches; of the following ones each pass keeps its fastest time. Row counts grow by 8, so that the line through them
// tells what a pass costs by itself (reading the weights) from what each row costs.
#include "commands/profile_net.h"

#include "backend/backend.h"
#include "base/cores.h"
#include "base/format.h"
#include "commands/net_sweeper.h"
#include "engine/compute_threads.h"
#include "net/node_net.h"
#include "scheduler/plan/job_precision.h"
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

/// Seconds of the three passes of a layer: the fastest of all sweeps.
struct Passes {
  double seconds[3] = {std::numeric_limits<double>::max(), 0, 0};
};
using TimesByLayer = std::map<std::string, Passes>;

/// One sweep more. @param first of those that are timed.
Status AddSweep(NetSweeper* sweeper, bool first, TimesByLayer* times) {
  return sweeper->Sweep([&](const NetStep& step, Pass pass, double seconds) {
    if (step.layer == nullptr) return;
    double& fastest = (*times)[step.layer->name()].seconds[static_cast<int>(pass)];
    fastest = first ? seconds : std::min(fastest, seconds);
  });
}

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
  HP_ASSIGN_OR_RETURN(const RoutingTableConfig::Precision precision,
                      PrecisionAlone(options.precision, "cpu", CpuLacksBFloat16()));
  const std::unique_ptr<Device> host = MakeHostDevice();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(ElementOf(precision));
  HP_ASSIGN_OR_RETURN(const SweepParameters parameters, SweepParameters::Create(plan, host.get()));

  ProfileConfig profile;
  profile.set_net_hash(ProfileHash(*net));
  profile.set_net(net->name());
  profile.set_host(options.host);
  profile.set_precision(RoutingTableConfig::Precision_Name(precision));
  profile.set_threads(threads);
  for (const int64_t dim : options.sample.data.dims()) profile.add_sample(dim);
  std::map<std::string, LayerProfile> layers;
  const int64_t most = std::max<int64_t>(1, graph->batch_size());
  double left = options.seconds, sweep = 0;
  for (int64_t rows = 1; rows <= most; rows *= kGrowth) {
    // The next number of rows takes about kGrowth times as long, twice: to warm up and to measure.
    if (rows > 1 && 2 * kGrowth * sweep > left) break;
    StatusOr<std::unique_ptr<NetSweeper>> sweeper =
        NetSweeper::Create(plan, host.get(), backend.get(), rows, parameters);
    if (!sweeper.ok() && rows == 1) return sweeper.status();
    if (!sweeper.ok()) break;  // what fewer rows say will do
    const double begin = Now();
    HP_RETURN_IF_ERROR((*sweeper)->Sweep({}));
    TimesByLayer times;
    for (int n = 0; n < kMostSweeps; ++n) {
      const double sweep_begin = Now();
      HP_RETURN_IF_ERROR(AddSweep(sweeper->get(), n == 0, &times));
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

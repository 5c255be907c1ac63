#include "commands/time_net.h"

#include "base/cores.h"
#include "base/format.h"
#include "commands/net_sweeper.h"
#include "engine/compute_threads.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace hp {
namespace {

/// Seconds of all timed sweeps, by layer; of steps that are no layer's under an empty name.
using SecondsByLayer = std::map<std::string, TimedLayer>;

Status TimedSweep(NetSweeper* sweeper, SecondsByLayer* times) {
  return sweeper->Sweep([&](const NetStep& step, Pass pass, double seconds) {
    if (pass == Pass::kInputGradient && !step.backward) return;
    TimedLayer& layer = (*times)[step.layer != nullptr ? step.layer->name() : std::string()];
    (pass == Pass::kForward ? layer.forward_s : layer.backward_s) += seconds;
  });
}

}  // namespace

StatusOr<std::vector<TimedLayer>> TimeNet(const std::shared_ptr<const caffe::NetParameter>& net, Device* device,
                                          Backend* backend, const TimeNetOptions& options) {
  const int threads = options.threads > 0 ? options.threads : DefaultThreads();
  HP_RETURN_IF_ERROR(TakeComputeThreads(threads, Format("the net needs %d threads", threads)));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net, options.phase));
  if (graph->batch_size() < 1) return InvalidArgument("net \"%s\" states no batch_size", net->name().c_str());
  const StageLayout layout{{{true, {0}}}, std::vector<int>(net->layer_size(), 0), {}};
  HP_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(*graph, options.sample, layout));
  HP_ASSIGN_OR_RETURN(const NodePlan plan, NodePlan::Create(*graph, placement, {.sample = options.sample}));
  HP_ASSIGN_OR_RETURN(const SweepParameters parameters, SweepParameters::Create(plan, device));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetSweeper> sweeper,
                      NetSweeper::Create(plan, device, backend, graph->batch_size(), parameters));
  HP_RETURN_IF_ERROR(sweeper->Sweep({}));
  SecondsByLayer times;
  for (int64_t iteration = 1; iteration <= options.iterations; ++iteration) {
    const auto begin = std::chrono::steady_clock::now();
    HP_RETURN_IF_ERROR(TimedSweep(sweeper.get(), &times));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (options.on_iteration) options.on_iteration(iteration, took.count());
  }
  std::vector<TimedLayer> means;
  const auto add = [&](const std::string& name) {
    const auto found = times.find(name);
    if (found == times.end()) return;
    const auto count = static_cast<double>(options.iterations);
    means.push_back({name, found->second.forward_s / count, found->second.backward_s / count});
  };
  for (const GraphLayer& layer : graph->layers()) add(layer.traits.name());
  add("");
  return means;
}

}  // namespace hp

#include "node/evaluate.h"

#include "base/mutex.h"
#include "layers/labels.h"
#include "net/graph.h"
#include "net/node_net.h"
#include "net/placement.h"
#include "node/input.h"
#include "node/label_store.h"
#include "scheduler/hosts.h"
#include "scheduler/schedule.h"
#include "solvers/param_store.h"

#include <omp.h>

#include <memory>

namespace hp {
namespace {

/// What the reader's threads tell the evaluation.
struct Arrivals {
  Mutex mutex;
  CondVar changed;
  Status failure HP_GUARDED_BY(mutex);
};

StatusOr<std::unique_ptr<ParamStore>> LoadParams(const NodeNet& net, const CaffeModel& model) {
  std::vector<StoredParam> stored;
  for (const NodeParam& param : net.params()) {
    StoredParam entry{param.layer, param.blob, param.spec.shape, 0, param.spec.shape[0], 0, 0, false};
    stored.push_back(entry);
  }
  auto params = std::make_unique<ParamStore>(stored);
  for (int i = 0; i < params->size(); ++i) {
    const StoredParam& param = params->param(i);
    HP_RETURN_IF_ERROR(
        model.CopyRows(param.layer, param.blob, param.whole, param.begin_row, param.end_row, params->values(i).data()));
    params->MarkUpdated(i);
  }
  return params;
}

JobShape ShapeOf(const NetGraph& graph, int64_t iterations) {
  JobShape shape;
  shape.train_batch = shape.test_batch = graph.batch_size();
  shape.test_iter = iterations;
  shape.test_interval = 1;
  return shape;
}

}  // namespace

StatusOr<std::vector<Evaluated>> Evaluate(const caffe::NetParameter& net_param, const CaffeModel& model,
                                          const EvaluateOptions& options) {
  omp_set_num_threads(options.threads > 0 ? options.threads : AvailableCores());
  auto net_copy = std::make_shared<const caffe::NetParameter>(net_param);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net_copy, caffe::TEST));
  if (graph->data_layer() < 0)
    return InvalidArgument("net \"%s\" has no Data layer to test with", net_param.name().c_str());
  const std::unique_ptr<Device> host = MakeHostDevice();
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input,
                      Input::Open(*graph->layers()[graph->data_layer()].param, false, options.cache_dir));

  const StageLayout layout{{{true, 1}}, std::vector<int>(net_param.layer_size(), 0)};
  HP_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(*graph, layout));
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  NodeRole role;
  role.sample_shape = input->sample_shape();
  role.backend = backend.get();
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NodeNet> net,
                      NodeNet::Create(*graph, placement, role, graph->batch_size()));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<ParamStore> params, LoadParams(*net, model));

  const Schedule schedule(ShapeOf(*graph, options.iterations));
  LabelStore labels(schedule);
  Arrivals arrivals;
  Input::Callbacks callbacks;
  callbacks.on_labels = [&](int64_t clock, bool train, int64_t batch, int64_t row, std::span<const float> values) {
    labels.Add(clock, train, batch, row, values);
  };
  callbacks.on_ready = [&] {
    MutexLock lock(&arrivals.mutex);
    arrivals.changed.SignalAll();
  };
  callbacks.on_error = [&](const Status& status) {
    MutexLock lock(&arrivals.mutex);
    arrivals.failure = status;
    arrivals.changed.SignalAll();
  };
  HP_RETURN_IF_ERROR(input->Prepare(schedule, 0, 0, 4, options.reader_threads, host.get(), callbacks));
  input->Start(0);

  std::vector<Evaluated> results;
  for (const NetOutput& output : net->outputs()) results.push_back({output.blob, output.loss_weight, 0});
  std::vector<ParamView> views;
  for (int i = 0; i < params->size(); ++i) views.push_back(params->View(i));
  const Buffer arena(net->arena_bytes()), scratch(net->scratch_bytes() + 64);
  for (MsgId id : schedule.TestIds(0, 0)) {
    Status failure;
    {
      MutexLock lock(&arrivals.mutex);
      while (!input->Ready(id) && arrivals.failure.ok()) arrivals.changed.Wait(&arrivals.mutex);
      failure = arrivals.failure;
    }
    if (!failure.ok()) {
      input->Stop();
      return failure;
    }
    NetRun run;
    run.arena = arena.data();
    run.scratch = scratch.data();
    run.images = input->images(id);
    run.params = views;
    run.batch.train = false;
    run.batch.first_sample = schedule.SamplesOfId(id).first_sample;
    run.batch.global_rows = graph->batch_size();
    run.batch.labels = run.batch.batch_labels = labels.BatchOf(id);
    for (int segment = 0; segment < net->segments(); ++segment) net->Forward(segment, run);
    input->Release(id);
    std::vector<float> values;
    for (size_t i = 0; i < results.size(); ++i) {
      values.push_back(net->ValueOf(net->outputs()[i].tensor, run).data[0]);
      results[i].mean += values.back() / static_cast<double>(options.iterations);
    }
    if (options.on_batch) options.on_batch(schedule.SamplesOfId(id).batch, values);
  }
  input->Stop();
  return results;
}

}  // namespace hp

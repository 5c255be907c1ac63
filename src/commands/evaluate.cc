// The TEST phase as a job of one node, one replica and one micro-batch a batch: the same plan, net, reader and bridge
// as in training, without pipeline and transport. Batches are computed one after the other on the calling thread,
// while the reader's threads decode up to kRing ahead.
#include "commands/evaluate.h"

#include "base/cores.h"
#include "base/format.h"
#include "base/mutex.h"
#include "engine/compute_threads.h"
#include "engine/host_bridge.h"
#include "engine/memory_fit.h"
#include "input/input.h"
#include "input/label_store.h"
#include "net/node_net.h"
#include "net/plan/graph.h"
#include "net/plan/placement.h"
#include "scheduler/plan/schedule.h"
#include "solvers/param_store.h"

#include <algorithm>
#include <memory>
#include <numeric>

namespace hp {
namespace {

constexpr int kRing = 4;  // batches that are read ahead

/// What the reader's threads tell the evaluation.
class Arrivals {
 public:
  void Signal() {
    MutexLock lock(&mutex_);
    changed_.SignalAll();
  }
  void Fail(const Status& status) {
    MutexLock lock(&mutex_);
    failure_ = status;
    changed_.SignalAll();
  }
  /// Waits for the images of `id`. @return why they don't come.
  Status Await(const Input& input, MsgId id) {
    MutexLock lock(&mutex_);
    while (!input.Ready(id) && failure_.ok()) changed_.Wait(&mutex_);
    return failure_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  Status failure_ HP_GUARDED_BY(mutex_);
};

StatusOr<std::unique_ptr<ParamStore>> LoadParams(Device* device, const NodeNet& net, const CaffeModel& model) {
  std::vector<StoredParam> stored;
  for (const ParamPlan& param : net.plan().params()) {
    StoredParam entry{param.layer, param.blob, param.spec.shape, Block::Whole(param.spec.shape), 0, 0, false};
    stored.push_back(entry);
  }
  HP_ASSIGN_OR_RETURN(std::unique_ptr<ParamStore> params, ParamStore::Create(device, stored));
  for (int i = 0; i < params->size(); ++i) {
    const StoredParam& param = params->param(i);
    std::vector<float> values(params->count(i));
    HP_RETURN_IF_ERROR(model.CopyBlock(param.layer, param.blob, param.whole, param.block, values));
    HP_RETURN_IF_ERROR(params->WriteValues(i, values));
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

/// The net of the TEST phase on a device, with memory for one batch.
class TestNet {
 public:
  static StatusOr<std::unique_ptr<TestNet>> Create(const NetGraph& graph, const Shape& sample, Device* device,
                                                   Backend* backend, const CaffeModel& model) {
    std::unique_ptr<TestNet> net(new TestNet(device));
    HP_RETURN_IF_ERROR(net->Build(graph, sample, backend));
    HP_RETURN_IF_ERROR(net->Allocate(model));
    return net;
  }

  /// Indices of the net's outputs in the order of their names, which is Caffe's.
  std::vector<size_t> order() const {
    std::vector<size_t> order(net_->outputs().size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [this](size_t a, size_t b) { return output(a).blob < output(b).blob; });
    return order;
  }
  const NetOutput& output(size_t i) const { return net_->outputs()[i]; }

  /// The values of all outputs, in that order. @param images,labels of the batch, in the host's memory.
  /// @return kInternal: the device failed.
  StatusOr<std::vector<float>> Run(uint64_t first_sample, float* images, std::span<const float> labels) {
    NetRun run;
    run.arena = arena_.data();
    run.scratch = scratch_.data();
    run.params = views_;
    run.batch.train = false;
    run.batch.first_sample = first_sample;
    run.batch.global_rows = net_->rows();
    if (bridge_) {
      RunOnDevice(images, labels, &run);
    } else {
      run.images = images;
      run.batch.labels = run.batch.batch_labels = labels;
      for (int segment = 0; segment < net_->segments(); ++segment) net_->Forward(segment, run);
    }
    HP_RETURN_IF_ERROR(device_->Synchronize());
    std::vector<float> values;
    for (size_t i : order()) {
      values.push_back(bridge_ ? bridge_->statistics(0)[i] : net_->ValueOf(output(i).tensor, run).floats()[0]);
    }
    return values;
  }

 private:
  explicit TestNet(Device* device) : device_(device) {}

  Status Build(const NetGraph& graph, const Shape& sample, Backend* backend) {
    const StageLayout layout{{{true, {0}}}, std::vector<int>(graph.net().layer_size(), 0), {}};
    HP_ASSIGN_OR_RETURN(Placement placement, Placement::Create(graph, sample, layout));
    placement_ = std::make_unique<const Placement>(std::move(placement));
    HP_ASSIGN_OR_RETURN(const NodePlan plan, NodePlan::Create(graph, *placement_, {.sample = sample}));
    HP_RETURN_IF_ERROR(CheckPlannedTest(plan, graph.batch_size(), Room()));
    HP_ASSIGN_OR_RETURN(net_, NodeNet::Create(plan, {.backend = backend}, graph.batch_size()));
    return OkStatus();
  }
  /// Of the host, where that is the device.
  MemoryRoom Room() const { return device_->is_host() ? HostMemoryRoom() : AddressSpaceRoom(); }
  Status Allocate(const CaffeModel& model) {
    size_t parameters = 0;
    for (const ParamPlan& param : net_->plan().params()) parameters += param.block.count() * sizeof(float);
    HP_RETURN_IF_ERROR(CheckTestMemory(*net_, parameters, kRing, Room()));
    HP_ASSIGN_OR_RETURN(params_, LoadParams(device_, *net_, model));
    for (int i = 0; i < params_->size(); ++i) views_.push_back(params_->View(i));
    HP_ASSIGN_OR_RETURN(arena_, device_->Allocate(net_->arena_bytes()));
    HP_ASSIGN_OR_RETURN(scratch_, device_->Allocate(net_->scratch_bytes() + 64));
    if (device_->is_host()) return OkStatus();
    BridgeNeeds needs;
    needs.nets = {net_.get()};
    needs.batch_rows = net_->rows();
    HP_ASSIGN_OR_RETURN(bridge_, HostBridge::Create(needs, device_));
    return OkStatus();
  }
  void RunOnDevice(const float* images, std::span<const float> labels, NetRun* run) {
    for (int segment = 0; segment < net_->segments(); ++segment) {
      bridge_->BringInputs(0, *net_, segment, segment == 0 ? images : nullptr, labels, 0, run);
      bridge_->BeginWork();
      device_->RunCaptured({static_cast<uint64_t>(segment)}, [&] { net_->Forward(segment, *run); });
      bridge_->EndWork();
    }
    bridge_->FetchStatistics(0, *net_, *run);
  }

  Device* const device_;
  std::unique_ptr<const Placement> placement_;
  std::unique_ptr<NodeNet> net_;  // points to the placement
  std::unique_ptr<ParamStore> params_;
  std::vector<ParamView> views_;
  Buffer arena_, scratch_;
  std::unique_ptr<HostBridge> bridge_;  // null on the host's device
};

}  // namespace

StatusOr<std::vector<Evaluated>> Evaluate(const caffe::NetParameter& net_param, const CaffeModel& model, Device* device,
                                          Backend* backend, const EvaluateOptions& options) {
  if (options.iterations < 1 || options.iterations > MsgId::kMaxMicroBatches) {
    return InvalidArgument("%lld iterations; expected 1 to %lld", static_cast<long long>(options.iterations),
                           static_cast<long long>(MsgId::kMaxMicroBatches));
  }
  const int threads = options.threads > 0 ? options.threads : AvailableCores();
  HP_RETURN_IF_ERROR(TakeComputeThreads(threads, Format("the test needs %d threads", threads)));
  auto net_copy = std::make_shared<const caffe::NetParameter>(net_param);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net_copy, caffe::TEST));
  if (graph->data_layer() < 0)
    return InvalidArgument("net \"%s\" has no Data layer to test with", net_param.name().c_str());
  const Schedule schedule(ShapeOf(*graph, options.iterations));
  LabelStore labels(schedule);
  Arrivals arrivals;
  Input::Callbacks callbacks;
  callbacks.on_labels = [&](int64_t clock, bool train, int64_t batch, int64_t row, std::span<const float> values) {
    labels.Add(clock, train, batch, row, values);
  };
  callbacks.on_ready = [&] { arrivals.Signal(); };
  callbacks.on_error = [&](const Status& status) { arrivals.Fail(status); };
  // Below all that its threads call.
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input,
                      Input::Open(*graph->layers()[graph->data_layer()].param, false, options.cache_dir));
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<TestNet> net,
                      TestNet::Create(*graph, input->sample_shape(), device, backend, model));
  HP_RETURN_IF_ERROR(
      input->Prepare(schedule, 0, 0, {.ring = kRing, .threads = options.reader_threads}, device, std::move(callbacks)));
  input->Start(0);

  std::vector<Evaluated> results;
  for (size_t i : net->order()) results.push_back({net->output(i).blob, net->output(i).loss_weight, 0});
  for (MsgId id : schedule.TestIds(0)) {
    HP_RETURN_IF_ERROR(arrivals.Await(*input, id));
    const IdSamples samples = schedule.SamplesOfId(id);
    HP_ASSIGN_OR_RETURN(const std::vector<float> values,
                        net->Run(samples.first_sample, input->images(id), labels.BatchOf(id)));
    input->Release(id);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].mean += values[i] / static_cast<double>(options.iterations);
    }
    if (options.on_batch) options.on_batch(samples.batch, values);
  }
  return results;
}

}  // namespace hp

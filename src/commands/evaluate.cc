// A ForwardNet fed by the reader of training. Batches are computed one after the other on the calling thread, while the
// reader's threads decode up to kRing ahead.
#include "commands/evaluate.h"

#include "base/cores.h"
#include "base/format.h"
#include "base/mutex.h"
#include "commands/output_files.h"
#include "engine/compute_threads.h"
#include "input/input.h"
#include "input/label_store.h"
#include "model/label_rules.h"
#include "net/plan/graph.h"
#include "net/plan/labels_ahead.h"
#include "scheduler/plan/schedule.h"

#include <memory>

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
    if (failure_.ok()) failure_ = status;
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

JobShape ShapeOf(const NetGraph& graph, int64_t iterations) {
  JobShape shape;
  shape.train_batch = graph.batch_size();
  shape.tests = {{iterations, graph.batch_size()}};
  shape.test_interval = 1;
  return shape;
}

}  // namespace

StatusOr<std::vector<Evaluated>> Evaluate(const caffe::NetParameter& net_param, const CaffeModel& model, Device* device,
                                          Backend* backend, const EvaluateOptions& options) {
  if (options.iterations < 1 || options.iterations > MsgId::kMaxMicroBatches) {
    return InvalidArgument("%lld iterations; expected 1 to %lld", static_cast<long long>(options.iterations),
                           static_cast<long long>(MsgId::kMaxMicroBatches));
  }
  const int threads = options.threads > 0 ? options.threads : DefaultThreads();
  HP_RETURN_IF_ERROR(TakeComputeThreads(threads, Format("the test needs %d threads", threads)));
  auto net_copy = std::make_shared<const caffe::NetParameter>(net_param);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net_copy, caffe::TEST));
  if (!graph->reads_records())
    return InvalidArgument("net \"%s\" has no Data layer to test with", net_param.name().c_str());
  const Schedule schedule(ShapeOf(*graph, options.iterations));
  LabelStore labels(schedule, {1, static_cast<int64_t>(graph->counted_labels().size())});
  Arrivals arrivals;
  Input::Callbacks callbacks;
  int64_t labels_of_row = 1;
  std::vector<LabelRule> rules;
  std::vector<LabelNumber> numbers;
  callbacks.on_labels = [&](int64_t clock, Phase phase, const BatchLabels& ahead) {
    if (Status good = CheckBatchLabels(ahead, rules, labels_of_row); !good.ok()) return arrivals.Fail(good);
    labels.Add(clock, phase, ahead.batch, ahead.first_row, NumbersOfRows(ahead.values, labels_of_row, numbers));
  };
  callbacks.on_ready = [&] { arrivals.Signal(); };
  callbacks.on_error = [&](const Status& status) { arrivals.Fail(status); };
  // Below all that its threads call.
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, Input::Open(net_param, caffe::TEST, LayerTypes::BuiltIn(),
                                                                      {options.cache_dir, options.max_bad_records}));
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, graph->Shapes(input->sample_shape(), 1));
  labels_of_row = LabelsOfRow(*graph, input->sample_shape());
  numbers = LabelNumbersOf(*graph, input->sample_shape());
  if (options.check_labels) rules = LabelRulesOf(*graph, shapes, input->sample_shape());
  HP_ASSIGN_OR_RETURN(OutputFiles files, OutputFiles::Of(net_param, caffe::TEST));
  ForwardNetOptions net_options{input->sample_shape(), graph->batch_size(), options.blobs, kRing};
  net_options.blobs.insert(net_options.blobs.end(), files.blobs().begin(), files.blobs().end());
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<ForwardNet> net,
                      ForwardNet::Create(*graph, net_options, device, backend, model));
  HP_RETURN_IF_ERROR(files.Create(*net, options.blobs.size(), options.iterations));
  HP_RETURN_IF_ERROR(input->Prepare(schedule, 0, caffe::TEST, 0, {.ring = kRing, .threads = options.reader_threads},
                                    device, std::move(callbacks)));
  input->Start(0);

  std::vector<Evaluated> results;
  for (const ForwardNet::Output& output : net->outputs()) results.push_back({output});
  for (MsgId id : schedule.TestIds(0)) {
    HP_RETURN_IF_ERROR(arrivals.Await(*input, id));
    const IdSamples samples = schedule.SamplesOfId(id);
    HP_ASSIGN_OR_RETURN(const std::vector<float> values,
                        net->Run(samples.first_sample, input->images(id), labels.BatchOf(id)));
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].mean += values[i] / static_cast<double>(options.iterations);
    }
    HP_RETURN_IF_ERROR(files.Put(*net, samples.batch));
    if (options.on_batch) HP_RETURN_IF_ERROR(options.on_batch(samples.batch, values, *net));
    input->Release(id);  // blobs that were read above may lie in its memory
  }
  HP_RETURN_IF_ERROR(files.Finish());
  return results;
}

}  // namespace hp

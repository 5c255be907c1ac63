// Evaluates a model: the TEST phase of a net with the weights of a .caffemodel, or of a running job.
#include "base/format.h"
#include "commands/evaluate.h"
#include "commands/local_job.h"
#include "commands/table_options.h"
#include "node/pull_client.h"
#include "proto/place.h"
#include "proto/text.h"
#include "scheduler/plan/msg_id.h"
#include "tools/tool_main.h"

#include "devices/devices.h"
#include "glog/logging.h"
#include <gflags/gflags.h>

#include <optional>
#include <string_view>

DEFINE_string(model, "", "The net (prototxt); its TEST phase is evaluated.");
DEFINE_string(weights, "", "The .caffemodel with the weights.");
DEFINE_int32(level, 0,
             "Level of the net's state, for the layers' include and exclude rules; not given: as the net says.");
DEFINE_string(stage, "", "Stages of the net's state, separated by commas.");
DEFINE_string(routing, "", "Instead of --weights: pull the weights of the running job that has this routing table.");
DEFINE_string(token_file, "", "With --routing: the job's token or read key (hproute --new_token, --read_key).");
DEFINE_int64(iterations, 50, "Number of batches to evaluate.");
DEFINE_string(device, "cpu", "Device to compute on: cpu, or cuda:N as listed by hpnode --list_devices.");
DEFINE_string(gpu, "", "As Caffe has it: the number of the GPU to compute on, N for --device=cuda:N.");
DEFINE_string(
    precision, "FP32",
    "How products are computed: FP32, or faster and with fewer digits BF16, on GPUs TF32 and FP16 as well; AUTO: "
    "BF16 where it can be done.");
DEFINE_int32(threads, 0, "Compute threads; 0: as OMP_NUM_THREADS says, else one per core.");
DEFINE_int32(reader_threads, 1, "Threads that read and transform records.");
DEFINE_int32(timeout_s, 60, "With --routing: how long to wait for the job, in seconds.");
DEFINE_int64(
    max_bad_records, 0,
    "How many records may be missing, damaged or of another shape. Each is named in the log, and the next good one "
    "of the data stands in for it.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace hp {
namespace {

constexpr int kMaxTimeoutS = 2'000'000;  // timers count milliseconds in an int

constexpr char kUsage[] =
    R"(Evaluates a model on the database of its TEST phase, from the first record on, and prints each output and its mean, as caffe
test does.

  model_test --model=NET.prototxt --weights=FILE.caffemodel [--iterations=N] [--device=cuda:0] [--precision=BF16]
             [--stage=A,B]
  model_test --model=NET.prototxt --routing=TABLE.prototxt [--iterations=N]

Example:
  model_test --model=digits_train_test.prototxt --weights=digits_iter_600.caffemodel --iterations=4
)";

StatusOr<CaffeModel> Weights() {
  if (FLAGS_weights.empty() == FLAGS_routing.empty()) {
    return InvalidArgument("expected either --weights=FILE.caffemodel or --routing=TABLE.prototxt");
  }
  if (!FLAGS_weights.empty()) return ReadCaffeModel(FLAGS_weights);
  HP_ASSIGN_OR_RETURN(const RoutingTable table, RoutingTable::Load(FLAGS_routing));
  std::optional<JobKeys> keys;
  if (!FLAGS_token_file.empty()) {
    HP_ASSIGN_OR_RETURN(keys, ReadJobKeys(FLAGS_token_file));
  }
  HP_ASSIGN_OR_RETURN(PulledModel pulled, PullWeights(table, FLAGS_timeout_s * 1000, keys));
  LOG(INFO) << "Weights of iteration " << pulled.iteration << " pulled from " << table.node(0).address();
  return std::move(pulled.model);
}

Status Run() {
  if (FLAGS_model.empty()) return InvalidArgument("--model=NET.prototxt is missing (--help says more)");
  if (FLAGS_iterations < 1 || FLAGS_iterations > MsgId::kMaxMicroBatches) {
    return InvalidArgument("--iterations is %lld; expected 1 to %lld", static_cast<long long>(FLAGS_iterations),
                           static_cast<long long>(MsgId::kMaxMicroBatches));
  }
  if (FLAGS_timeout_s < 1 || FLAGS_timeout_s > kMaxTimeoutS) {
    return InvalidArgument("--timeout_s is %d; expected 1 to %d", FLAGS_timeout_s, kMaxTimeoutS);
  }
  HP_RETURN_IF_ERROR(CheckMaxBadRecords(FLAGS_max_bad_records));
  HP_RETURN_IF_ERROR(CheckThreads("threads", FLAGS_threads, 0));
  HP_RETURN_IF_ERROR(CheckThreads("reader_threads", FLAGS_reader_threads, 1));
  HP_ASSIGN_OR_RETURN(const caffe::NetParameter net,
                      ReadNetInState(FLAGS_model, IfGiven("level", FLAGS_level), FLAGS_stage));
  HP_ASSIGN_OR_RETURN(const CaffeModel weights, Weights());
  HP_ASSIGN_OR_RETURN(const Precision precision, PrecisionOf(FLAGS_precision));
  HP_ASSIGN_OR_RETURN(const std::string device_name, DeviceOfFlags(FLAGS_device, FLAGS_gpu, CountGpus));
  HP_ASSIGN_OR_RETURN(const NodeDevice device, OpenDeviceAlone(device_name, precision));
  EvaluateOptions options;
  options.iterations = FLAGS_iterations;
  options.threads = FLAGS_threads;
  options.reader_threads = FLAGS_reader_threads;
  options.cache_dir = FLAGS_cache_dir;
  options.max_bad_records = FLAGS_max_bad_records;
  options.on_batch = [](int64_t batch, const std::vector<float>& values, const ForwardNet& of) {
    const std::vector<ForwardNet::Output> outputs = of.outputs();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!outputs[i].printed) continue;
      LOG(INFO) << "Batch " << batch << ", " << outputs[i].name << " = " << Format("%g", values[i]);
    }
    return OkStatus();
  };
  LOG(INFO) << "Running for " << FLAGS_iterations << " iterations.";
  const StatusOr<std::vector<Evaluated>> results =
      Evaluate(net, weights, device.device.get(), device.backend.get(), options);
  if (!results.ok()) return AtLayer(results.status(), net, caffe::TEST);
  double loss = 0;
  for (const Evaluated& result : *results) loss += result.loss_weight * result.mean;
  LOG(INFO) << "Loss: " << Format("%g", loss);
  for (const Evaluated& result : *results) {
    if (!result.printed) continue;
    std::string weight;
    if (result.loss_weight != 0)
      weight = Format(" (* %g = %g loss)", result.loss_weight, result.loss_weight * result.mean);
    LOG(INFO) << result.name << " = " << Format("%g", result.mean) << weight;
  }
  return OkStatus();
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  // The same program under two names.
  const bool as_hptest = std::string_view(argv[0]).ends_with("hptest");
  const hp::ToolUsage usage{as_hptest ? "hptest" : "model_test", hp::kUsage, 0, 0, "model_test.cc",
                            as_hptest ? "test" : nullptr};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>&) { return hp::Run(); });
}

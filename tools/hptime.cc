// Times the layers of a net.
#include "base/format.h"
#include "commands/local_job.h"
#include "commands/sample_shape.h"
#include "commands/table_options.h"
#include "commands/time_net.h"
#include "proto/place.h"
#include "proto/text.h"
#include "tools/tool_main.h"

#include "devices/devices.h"
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <algorithm>

DEFINE_string(model, "", "The net (prototxt), of training or a deploy net.");
DEFINE_int64(iterations, 50, "Number of forward and backward passes that are timed.");
DEFINE_string(phase, "TRAIN",
              "Whose layers are timed, TRAIN or TEST; TEST, and nets without a loss, have no backward pass.");
DEFINE_int32(level, 0,
             "Level of the net's state, for the layers' include and exclude rules; not given: as the net says.");
DEFINE_string(stage, "", "Stages of the net's state, separated by commas.");
DEFINE_string(device, "cpu", "Device to compute on: cpu, or cuda:N as listed by hpnode --list_devices.");
DEFINE_string(gpu, "", "As Caffe has it: the number of the GPU to compute on, N for --device=cuda:N.");
DEFINE_string(
    precision, "FP32",
    "How products are computed: FP32, or faster and with fewer digits BF16, on GPUs TF32 and FP16 as well; AUTO: "
    "BF16 where it can be done.");
DEFINE_int32(threads, 0, "Compute threads; 0: as OMP_NUM_THREADS says, else one per core.");
DEFINE_string(
    sample, "",
    "CHANNELS,HEIGHT,WIDTH of a sample behind its transformation, such as 3,227,227, behind a slash the shape of its "
    "labels, if they are several, such as 3,227,227/227,227, and behind a plus each further top of a row, such as "
    "3,227,227+10+1; empty: as the databases or the Input layers say.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace hp {
namespace {

constexpr char kUsage[] =
    R"(Times the layers of a net, one by one, as caffe time does: with random values, without reading data, and without
updates. The first pass warms up and does not count. On a GPU each layer waits for the one before it, which in training
it does not: the times add up to more than an iteration. What a layer leaves to its neighbours counts there, such as, on
a CPU, a ReLU in place behind a BatchNorm and its Scale.

  hptime --model=NET.prototxt [--iterations=N] [--phase=TRAIN|TEST] [--level=N] [--stage=A,B]
         [--device=cuda:0] [--precision=BF16] [--threads=N]

Example:
  hptime --model=alexnet_train_test.prototxt --iterations=10 --sample=3,227,227
)";

std::string Milliseconds(double seconds) { return Format("%g ms.", seconds * 1e3); }

void Print(const std::vector<TimedLayer>& layers, double total_s) {
  size_t width = 0;
  for (const TimedLayer& layer : layers) width = std::max(width, layer.name.size());
  double forward_s = 0, backward_s = 0;
  LOG(INFO) << "Average time per layer: ";
  for (const TimedLayer& layer : layers) {
    const std::string name = layer.name.empty() ? "(between layers)" : layer.name;
    LOG(INFO) << Format("%*s\tforward: ", static_cast<int>(width), name.c_str()) << Milliseconds(layer.forward_s);
    if (FLAGS_phase == "TRAIN") {
      LOG(INFO) << Format("%*s\tbackward: ", static_cast<int>(width), name.c_str()) << Milliseconds(layer.backward_s);
    }
    forward_s += layer.forward_s;
    backward_s += layer.backward_s;
  }
  LOG_IF(WARNING, FLAGS_phase == "TRAIN" && backward_s == 0)
      << "no gradient flows in this net, so no backward pass is timed: it has no loss, or nothing in it learns";
  LOG(INFO) << "Average Forward pass: " << Milliseconds(forward_s);
  LOG(INFO) << "Average Backward pass: " << Milliseconds(backward_s);
  LOG(INFO) << "Average Forward-Backward: " << Milliseconds(forward_s + backward_s);
  LOG(INFO) << "Total Time: " << Milliseconds(total_s);
}

Status Run() {
  if (FLAGS_model.empty()) return InvalidArgument("--model=NET.prototxt is missing (hptime --help)");
  if (FLAGS_iterations < 1) {
    return InvalidArgument("--iterations is %lld; expected at least 1", static_cast<long long>(FLAGS_iterations));
  }
  TimeNetOptions options;
  if (!caffe::Phase_Parse(FLAGS_phase, &options.phase)) {
    return InvalidArgument("--phase is \"%s\"; expected TRAIN or TEST", FLAGS_phase.c_str());
  }
  HP_RETURN_IF_ERROR(CheckThreads("threads", FLAGS_threads, 0));
  options.threads = FLAGS_threads;
  options.iterations = FLAGS_iterations;
  HP_ASSIGN_OR_RETURN(caffe::NetParameter read,
                      ReadNetInState(FLAGS_model, IfGiven("level", FLAGS_level), FLAGS_stage));
  const auto net = std::make_shared<const caffe::NetParameter>(std::move(read));
  HP_ASSIGN_OR_RETURN(options.sample, SampleShapeOfNet(FLAGS_sample, *net, options.phase, FLAGS_cache_dir));
  double total_s = 0;
  options.on_iteration = [&](int64_t iteration, double seconds) {
    LOG(INFO) << "Iteration: " << iteration << " forward-backward time: " << Milliseconds(seconds);
    total_s += seconds;
  };
  HP_ASSIGN_OR_RETURN(const Precision precision, PrecisionOf(FLAGS_precision));
  HP_ASSIGN_OR_RETURN(const std::string device_name, DeviceOfFlags(FLAGS_device, FLAGS_gpu, CountGpus));
  HP_ASSIGN_OR_RETURN(const NodeDevice device, OpenDeviceAlone(device_name, precision));
  LOG(INFO) << "*** Benchmark begins ***";
  LOG(INFO) << "Testing for " << FLAGS_iterations << " iterations.";
  const StatusOr<std::vector<TimedLayer>> layers = TimeNet(net, device.device.get(), device.backend.get(), options);
  if (!layers.ok()) return AtLayer(layers.status(), *net, options.phase);
  Print(*layers, total_s);
  LOG(INFO) << "*** Benchmark ends ***";
  return OkStatus();
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"hptime", hp::kUsage, 0, 0, nullptr, "time"};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>&) { return hp::Run(); });
}

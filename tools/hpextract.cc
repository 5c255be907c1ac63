// Writes what blobs of a net hold for each sample of a database.
#include "base/words.h"
#include "commands/extract.h"
#include "commands/local_job.h"
#include "proto/place.h"
#include "proto/text.h"
#include "scheduler/plan/msg_id.h"
#include "tools/tool_main.h"

#include "devices/devices.h"
#include <gflags/gflags.h>

DEFINE_string(model, "", "The net (prototxt); its TEST phase is run.");
DEFINE_int32(level, 0,
             "Level of the net's state, for the layers' include and exclude rules; not given: as the net says.");
DEFINE_string(stage, "", "Stages of the net's state, separated by commas.");
DEFINE_string(weights, "", "The .caffemodel with the weights.");
DEFINE_string(blobs, "", "Names of the blobs, separated by commas.");
DEFINE_string(out, "", "The databases to write, one for each blob, separated by commas.");
DEFINE_string(backend, "lmdb", "The databases to write, lmdb or leveldb.");
DEFINE_int64(iterations, 50, "Number of batches to run.");
DEFINE_string(device, "cpu", "Device to compute on: cpu, or cuda:N as listed by hpnode --list_devices.");
DEFINE_string(gpu, "", "As Caffe has it: the number of the GPU to compute on, N for --device=cuda:N.");
DEFINE_int32(threads, 0, "Compute threads; 0: as OMP_NUM_THREADS says, else one per core.");
DEFINE_int32(reader_threads, 1, "Threads that read and transform records.");
DEFINE_int64(max_bad_records, 0,
             "How many records may be unreadable: each is named in the log, and the next good one stands in for it.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace hp {
namespace {

constexpr char kUsage[] =
    R"(Runs the TEST phase of a net over its database and writes what blobs hold for each sample into databases, as
Caffe's extract_features does: records of float_data, in the order of the samples.

  hpextract --model=NET.prototxt --weights=FILE.caffemodel --blobs=NAME,... --out=DATABASE,... [--iterations=N]

Example:
  hpextract --model=digits_train_test.prototxt --weights=digits_iter_600.caffemodel --blobs=ip1 --out=ip1_lmdb
)";

Status Run() {
  if (FLAGS_model.empty()) return InvalidArgument("--model=NET.prototxt is missing (hpextract --help)");
  if (FLAGS_weights.empty()) return InvalidArgument("--weights=FILE.caffemodel is missing (hpextract --help)");
  if (FLAGS_blobs.empty()) return InvalidArgument("--blobs=NAME,... is missing (hpextract --help)");
  if (FLAGS_iterations < 1 || FLAGS_iterations > MsgId::kMaxMicroBatches) {
    return InvalidArgument("--iterations is %lld; expected 1 to %lld", static_cast<long long>(FLAGS_iterations),
                           static_cast<long long>(MsgId::kMaxMicroBatches));
  }
  HP_RETURN_IF_ERROR(CheckMaxBadRecords(FLAGS_max_bad_records));
  HP_RETURN_IF_ERROR(CheckThreads("threads", FLAGS_threads, 0));
  HP_RETURN_IF_ERROR(CheckThreads("reader_threads", FLAGS_reader_threads, 1));
  ExtractOptions options;
  options.blobs = SplitList(FLAGS_blobs);
  options.databases = SplitList(FLAGS_out);
  options.backend = FLAGS_backend;
  options.iterations = FLAGS_iterations;
  options.threads = FLAGS_threads;
  options.reader_threads = FLAGS_reader_threads;
  options.cache_dir = FLAGS_cache_dir;
  options.max_bad_records = FLAGS_max_bad_records;
  if (options.blobs.size() != options.databases.size()) {
    return InvalidArgument("--blobs names %zu blobs and --out %zu databases; expected one for each",
                           options.blobs.size(), options.databases.size());
  }
  HP_ASSIGN_OR_RETURN(const caffe::NetParameter net,
                      ReadNetInState(FLAGS_model, IfGiven("level", FLAGS_level), FLAGS_stage));
  HP_ASSIGN_OR_RETURN(const CaffeModel model, ReadCaffeModel(FLAGS_weights));
  HP_ASSIGN_OR_RETURN(const std::string device_name, DeviceOfFlags(FLAGS_device, FLAGS_gpu, CountGpus));
  HP_ASSIGN_OR_RETURN(const NodeDevice device, OpenNodeDevice(device_name, RoutingTableConfig::FP32));
  return AtLayer(ExtractBlobs(net, model, device.device.get(), device.backend.get(), options), net, caffe::TEST);
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"hpextract", hp::kUsage, 0, 0};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>&) { return hp::Run(); });
}

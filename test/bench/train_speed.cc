// Images per second of whole training in one process: reading, forward, backward and update, by the trivial table, over
// a database of random images. Prints one line for test/bench/train_speed.py to read.
#include "base/clock.h"
#include "proto/text.h"
#include "test/support/local_cluster.h"

#include "devices/devices.h"
#include "glog/logging.h"
#include <gflags/gflags.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

DEFINE_string(net, "", "train net (prototxt) with a Data layer; its database and mean are replaced");
DEFINE_int32(batch, 100, "samples of a batch");
DEFINE_int32(size, 32, "height and width of the records");
DEFINE_int32(channels, 3, "of the records");
DEFINE_int32(classes, 10, "labels are below it");
DEFINE_int32(records, 0, "of the database; 0: four batches");
DEFINE_string(images, "", "folder of the database, which is made where it is missing and kept; empty: a temporary one");
DEFINE_string(device, "cpu", "cpu or cuda:N");
DEFINE_string(precision, "FP32", "how products are computed: a name of src/proto/routing.proto's Precision");
DEFINE_int32(threads, 2, "of the executor");
DEFINE_int32(reader_threads, 1, "that read, decode and transform records");
DEFINE_int32(micro_batches, 1, "that a batch is cut into");
DEFINE_int32(iterations, 20, "timed iterations");
DEFINE_int32(warm_up, 3, "iterations before them; a GPU's work is recorded in the first ones, for each solver");
DEFINE_int32(block, 1, "iterations that are timed together; the median of the blocks counts");

namespace hp::test {
namespace {

/// Makes the database where it is missing. @return its path.
std::string Images(const TempFolder& folder) {
  const std::string path = FLAGS_images.empty() ? folder / "images" : FLAGS_images;
  const int records = FLAGS_records > 0 ? FLAGS_records : FLAGS_batch * 4;
  if (!std::filesystem::exists(path)) WriteRandomImages(path, records, FLAGS_channels, FLAGS_size, FLAGS_classes, 1);
  return path;
}

std::string WriteNet(const TempFolder& folder) {
  auto net = ReadNet(FLAGS_net);
  CHECK(net.ok()) << net.status();
  for (caffe::LayerParameter& layer : *net->mutable_layer()) {
    layer.clear_place();  // of the file that was read
    if (layer.type() != "Data") continue;
    layer.mutable_data_param()->set_source(Images(folder));
    layer.mutable_data_param()->set_backend(caffe::DataParameter::LEVELDB);
    layer.mutable_data_param()->set_batch_size(FLAGS_batch);
    layer.mutable_transform_param()->clear_mean_file();
  }
  const std::string path = folder / "net.prototxt";
  WriteFile(path, net->Utf8DebugString());
  return path;
}

/// Seconds of an iteration: the median of the blocks. @param ends when each iteration's loss was known, ns.
double MedianSeconds(const std::vector<int64_t>& ends) {
  std::vector<double> seconds;
  for (size_t i = FLAGS_warm_up - 1; i + FLAGS_block < ends.size(); i += FLAGS_block) {
    seconds.push_back((ends[i + FLAGS_block] - ends[i]) / 1e9 / FLAGS_block);
  }
  CHECK(!seconds.empty()) << "no block of " << FLAGS_block << " iterations among " << FLAGS_iterations;
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

/// Numbers that are learnt: not the running statistics of a BatchNorm.
int64_t LearntNumbers(const ClusterResult& result) {
  const auto net = ReadNet(FLAGS_net);
  int64_t count = 0;
  for (const auto& [name, values] : result.params) {
    const bool learnt = std::none_of(net->layer().begin(), net->layer().end(), [&name](const auto& layer) {
      return layer.type() == "BatchNorm" && name.starts_with(layer.name() + ".");
    });
    if (learnt) count += static_cast<int64_t>(values.size());
  }
  return count;
}

double HostPeakMb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024.0;
}

int Main() {
  CHECK_GE(FLAGS_warm_up, 1);
  const TempFolder folder;
  const std::string solver = folder / "solver.prototxt";
  WriteFile(solver, "net: '" + WriteNet(folder) +
                        "' base_lr: 0.0001 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.0005"
                        " snapshot_after_train: false random_seed: 1 max_iter: " +
                        std::to_string(FLAGS_warm_up + FLAGS_iterations));
  ClusterSpec spec;
  spec.threads = FLAGS_threads;
  spec.reader_threads = FLAGS_reader_threads;
  spec.micro_batches = FLAGS_micro_batches;
  spec.device = FLAGS_device;
  CHECK(RoutingTableConfig::Precision_Parse(FLAGS_precision, &spec.precision)) << "--precision=" << FLAGS_precision;
  const Device* device = nullptr;
  size_t free_at_start = 0, free_at_end = 0;
  double host_peak_mb = 0;
  spec.open_device = [&](Rank) -> StatusOr<NodeDevice> {
    HP_ASSIGN_OR_RETURN(NodeDevice opened, OpenNodeDevice(FLAGS_device, spec.precision));
    device = opened.device.get();
    free_at_start = device->free_bytes();
    return opened;
  };
  std::vector<int64_t> ends;
  spec.on_loss = [&](int64_t) {
    ends.push_back(Clock::Real()->NowNs());
    // Once: a GPU's driver may wait for what is under way to answer it. Behind the job its result is copied for tests.
    if (std::ssize(ends) == FLAGS_warm_up + FLAGS_iterations) {
      free_at_end = device->free_bytes();
      host_peak_mb = HostPeakMb();
    }
  };
  const ClusterResult result = TrainCluster(spec, solver);
  CHECK(result.status.ok()) << result.status;
  printf("images_per_s %.2f peak_mb %.0f parameters %lld\n", FLAGS_batch / MedianSeconds(ends),
         FLAGS_device == "cpu" ? host_peak_mb : (free_at_start - free_at_end) / 1048576.0,
         static_cast<long long>(LearntNumbers(result)));
  return 0;
}

}  // namespace
}  // namespace hp::test

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  return hp::test::Main();
}

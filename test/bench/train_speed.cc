// Images per second of whole training in one process: reading, forward, backward and update, by the trivial table, over
// a database of random images that it makes first. Prints one line for test/bench/train_speed.py to read.
#include "base/clock.h"
#include "proto/text.h"
#include "test/support/local_cluster.h"

#include "glog/logging.h"
#include <gflags/gflags.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <vector>

DEFINE_string(net, "", "train net (prototxt) with a Data layer; its database and mean are replaced");
DEFINE_int32(batch, 100, "samples of a batch");
DEFINE_int32(size, 32, "height and width of the records");
DEFINE_int32(classes, 10, "labels are below it");
DEFINE_int32(threads, 2, "of the executor");
DEFINE_int32(iterations, 20, "timed iterations");
DEFINE_int32(warm_up, 3, "iterations before them");

namespace hp::test {
namespace {

std::string WriteNet(const TempFolder& folder) {
  auto net = ReadNet(FLAGS_net);
  CHECK(net.ok()) << net.status();
  for (caffe::LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "Data") continue;
    layer.mutable_data_param()->set_source(folder / "images");
    layer.mutable_data_param()->set_backend(caffe::DataParameter::LEVELDB);
    layer.mutable_data_param()->set_batch_size(FLAGS_batch);
    layer.mutable_transform_param()->clear_mean_file();
  }
  const std::string path = folder / "net.prototxt";
  WriteFile(path, net->Utf8DebugString());
  return path;
}

int Main() {
  const TempFolder folder;
  WriteRandomImages(folder / "images", FLAGS_batch * 4, 3, FLAGS_size, FLAGS_classes, 1);
  const std::string solver = folder / "solver.prototxt";
  WriteFile(solver, "net: '" + WriteNet(folder) +
                        "' base_lr: 0.0001 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.0005"
                        " snapshot_after_train: false random_seed: 1 max_iter: " +
                        std::to_string(FLAGS_warm_up + FLAGS_iterations));
  ClusterSpec spec;
  spec.threads = FLAGS_threads;
  std::vector<int64_t> ends;
  spec.on_loss = [&ends](int64_t) { ends.push_back(Clock::Real()->NowNs()); };
  const ClusterResult result = TrainCluster(spec, solver);
  CHECK(result.status.ok()) << result.status;
  std::vector<double> seconds;
  for (size_t i = FLAGS_warm_up; i < ends.size(); ++i) seconds.push_back((ends[i] - ends[i - 1]) / 1e9);
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("images_per_s %.2f peak_mb %.0f\n", FLAGS_batch / seconds[seconds.size() / 2], usage.ru_maxrss / 1024.0);
  return 0;
}

}  // namespace
}  // namespace hp::test

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  return hp::test::Main();
}

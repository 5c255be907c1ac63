// Images per second of the input alone: records from a database, cropped, mirrored and made floats, by as many reader
// threads as are asked for and with nobody who computes. Prints one line.
#include "base/clock.h"
#include "base/mutex.h"
#include "input/input.h"
#include "proto/text.h"
#include "test/support/local_cluster.h"

#include "glog/logging.h"
#include <gflags/gflags.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>

DEFINE_int32(batch, 256, "samples of a batch");
DEFINE_int32(size, 256, "height and width of the records");
DEFINE_int32(crop, 227, "height and width of what is cut out of them");
DEFINE_int32(records, 1024, "of the database");
DEFINE_string(images, "", "folder of the database, which is made where it is missing and kept; empty: a temporary one");
DEFINE_int32(reader_threads, 1, "that read, decode and transform records");
DEFINE_int32(batches, 40, "to read, after four that do not count");

namespace hp::test {
namespace {

constexpr int kWarmUp = 4, kRing = 4;

caffe::LayerParameter DataLayer(const std::string& source) {
  caffe::LayerParameter layer;
  layer.set_name("data");
  layer.set_type("Data");
  for (const char* top : {"data", "label"}) layer.add_top(top);
  layer.mutable_data_param()->set_source(source);
  layer.mutable_data_param()->set_backend(caffe::DataParameter::LEVELDB);
  layer.mutable_data_param()->set_batch_size(FLAGS_batch);
  layer.mutable_transform_param()->set_mirror(true);
  layer.mutable_transform_param()->set_crop_size(FLAGS_crop);
  for (float mean : {104, 117, 123}) layer.mutable_transform_param()->add_mean_value(mean);
  return layer;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int Main() {
  const TempFolder folder;
  const std::string path = FLAGS_images.empty() ? folder / "images" : FLAGS_images;
  if (!std::filesystem::exists(path)) WriteRandomImages(path, FLAGS_records, 3, FLAGS_size, 1000, 1);
  caffe::NetParameter net;
  *net.add_layer() = DataLayer(path);
  auto opened = Input::Open(net, caffe::TRAIN, LayerTypes::BuiltIn(), {"none"});
  CHECK(opened.ok()) << opened.status();
  const std::unique_ptr<Input> input = *std::move(opened);
  JobShape shape;
  shape.train_batch = FLAGS_batch;
  shape.max_iter = kWarmUp + FLAGS_batches;
  const Schedule schedule(shape);
  Mutex mutex;
  CondVar changed;
  Input::Callbacks callbacks;
  callbacks.on_labels = [](int64_t, Phase, const BatchLabels&) {};
  callbacks.on_ready = [&] {
    MutexLock lock(&mutex);
    changed.SignalAll();
  };
  callbacks.on_error = [&](const Status& status) { LOG(FATAL) << status; };
  const std::unique_ptr<Device> host = MakeHostDevice();
  const Status prepared = input->Prepare(schedule, 0, caffe::TRAIN, 1, {.ring = kRing, .threads = FLAGS_reader_threads},
                                         host.get(), callbacks);
  CHECK(prepared.ok()) << prepared;
  input->Start(0);
  int64_t begin_ns = 0;
  double begin_cpu = 0;
  for (int64_t clock = 0; clock < shape.max_iter; ++clock) {
    const MsgId id = schedule.TrainIds(clock).front();
    {
      MutexLock lock(&mutex);
      while (!input->Ready(id)) changed.Wait(&mutex);
    }
    input->Release(id);
    if (clock + 1 != kWarmUp) continue;
    begin_ns = Clock::Real()->NowNs();
    begin_cpu = CpuSeconds();
  }
  const double seconds = (Clock::Real()->NowNs() - begin_ns) / 1e9, cpu = CpuSeconds() - begin_cpu;
  const double images = static_cast<double>(FLAGS_batch) * FLAGS_batches;
  const double record_bytes = 3.0 * FLAGS_size * FLAGS_size, image_bytes = 4.0 * input->sample_shape().data.count();
  printf("images_per_s %.0f records_gb_per_s %.2f floats_gb_per_s %.2f images_per_core_s %.0f\n", images / seconds,
         images * record_bytes / seconds / 1e9, images * image_bytes / seconds / 1e9, images / cpu);
  return 0;
}

}  // namespace
}  // namespace hp::test

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  return hp::test::Main();
}

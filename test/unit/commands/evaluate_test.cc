// An evaluation on a GPU beside that on the CPU. The GPU is a fake, whose memory only queued work can touch.
#include "commands/evaluate.h"

#include "test/support/fake_device.h"
#include "test/support/local_cluster.h"

#include "glog/logging.h"
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <random>

namespace hp::test {
namespace {

constexpr char kNet[] = R"(
name: "evaluated"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
        transform_param { scale: 0.0078125 mean_value: 120 crop_size: 10 mirror: true }
        data_param { source: "%s" batch_size: 7 backend: LEVELDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 6 kernel_size: 3 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "norm1" type: "LRN" bottom: "pool1" top: "norm1" lrn_param { local_size: 3 alpha: 0.1 } }
layer { name: "ip1" type: "InnerProduct" bottom: "norm1" top: "ip1" inner_product_param { num_output: 5 } }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip1" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" loss_param { ignore_label: 2 } }
)";

Blob RandomBlob(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.3f);
  Blob blob;
  blob.shape = shape;
  blob.data.resize(shape.count());
  for (float& value : blob.data) value = normal(random);
  return blob;
}

class EvaluateTest : public testing::Test {
 protected:
  EvaluateTest() {
    WriteRandomImages(folder_ / "images", 30, 3, 12, 5, 1);
    char text[sizeof(kNet) + 200];
    snprintf(text, sizeof(text), kNet, (folder_ / "images").c_str());
    CHECK(google::protobuf::TextFormat::ParseFromString(text, &net_));
    model_.blobs[{"conv1", 0}] = RandomBlob({6, 3, 3, 3}, 1);
    model_.blobs[{"conv1", 1}] = RandomBlob({6}, 2);
    model_.blobs[{"ip1", 0}] = RandomBlob({5, 96}, 3);
    model_.blobs[{"ip1", 1}] = RandomBlob({5}, 4);
    options_.iterations = 6;  // the last of which begin again with the first records
    options_.threads = 1;
    options_.cache_dir = "none";
    options_.on_batch = [this](int64_t, const std::vector<float>& values, const ForwardNet&) {
      batches_.insert(batches_.end(), values.begin(), values.end());
      return OkStatus();
    };
  }

  StatusOr<std::vector<Evaluated>> EvaluateOn(StatusOr<NodeDevice> device) {
    HP_RETURN_IF_ERROR(device.status());
    return Evaluate(net_, model_, device->device.get(), device->backend.get(), options_);
  }

  const TempFolder folder_;
  caffe::NetParameter net_;
  CaffeModel model_;
  EvaluateOptions options_;
  std::vector<float> batches_;  // outputs of all batches of the latest evaluation
};

TEST_F(EvaluateTest, AGpuYieldsWhatTheCpuYields) {
  const auto on_cpu = EvaluateOn(OpenNodeDevice("cpu", RoutingTableConfig::FP32));
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  const std::vector<float> cpu_batches = std::move(batches_);
  ASSERT_EQ(cpu_batches.size(), 12u);
  EXPECT_NE(cpu_batches[1], cpu_batches[3]) << "one batch is like the other";

  int repeated = 0;
  batches_.clear();
  FakeGpu::Options gpu_options;
  gpu_options.protect = true;
  gpu_options.on_close = [&](const FakeGpu& gpu) { repeated = gpu.repeated(); };
  const auto on_gpu = EvaluateOn(FakeDevice(gpu_options));
  ASSERT_TRUE(on_gpu.ok()) << on_gpu.status();
  ASSERT_EQ(on_gpu->size(), on_cpu->size());
  for (size_t i = 0; i < on_cpu->size(); ++i) {
    EXPECT_EQ((*on_gpu)[i].name, (*on_cpu)[i].name);
    EXPECT_NEAR((*on_gpu)[i].mean, (*on_cpu)[i].mean, 1e-4);
  }
  ASSERT_EQ(batches_.size(), cpu_batches.size());
  for (size_t i = 0; i < cpu_batches.size(); ++i) EXPECT_NEAR(batches_[i], cpu_batches[i], 1e-4) << i;
  EXPECT_EQ(repeated, 4);
}

// What a blob holds does not depend on which others stay, or on where it is computed.
TEST_F(EvaluateTest, KeptBlobsHoldTheirValues) {
  std::vector<std::vector<float>> kept;
  options_.iterations = 1;
  options_.on_batch = [&](int64_t, const std::vector<float>&, const ForwardNet& net) {
    for (size_t i = 0; i < options_.blobs.size(); ++i) {
      HP_ASSIGN_OR_RETURN(std::vector<float> values, net.ReadBlob(i));
      EXPECT_EQ(net.blob_shape(i).count(), static_cast<int64_t>(values.size()));
      EXPECT_EQ(net.blob_shape(i).dim(0), 7);
      kept.push_back(std::move(values));
    }
    return OkStatus();
  };
  const std::vector<std::string> names = {"ip1", "conv1", "data", "norm1", "pool1"};
  options_.blobs = names;
  ASSERT_TRUE(EvaluateOn(OpenNodeDevice("cpu", RoutingTableConfig::FP32)).ok());
  const std::vector<std::vector<float>> together = std::move(kept);
  ASSERT_EQ(together.size(), names.size());
  EXPECT_EQ(together[1].size(), 7u * 6 * 8 * 8);
  EXPECT_EQ(*std::min_element(together[1].begin(), together[1].end()), 0) << "conv1 is what its ReLU made of it";
  EXPECT_LT(*std::min_element(together[0].begin(), together[0].end()), 0);

  kept.clear();
  for (const std::string& name : names) {
    options_.blobs = {name};
    ASSERT_TRUE(EvaluateOn(OpenNodeDevice("cpu", RoutingTableConfig::FP32)).ok());
  }
  EXPECT_EQ(kept, together);

  kept.clear();
  options_.blobs = names;
  const auto on_gpu = EvaluateOn(FakeDevice({.protect = true}));
  ASSERT_TRUE(on_gpu.ok()) << on_gpu.status();
  ASSERT_EQ(kept.size(), together.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_THAT(kept[i], testing::Pointwise(testing::FloatNear(1e-4), together[i])) << names[i];
  }
}

TEST_F(EvaluateTest, AFailingGpuEndsIt) {
  StatusOr<NodeDevice> device = FakeDevice({});
  ASSERT_TRUE(device.ok()) << device.status();
  auto* const gpu = static_cast<FakeGpu*>(device->device.get());
  options_.on_batch = [&](int64_t, const std::vector<float>&, const ForwardNet&) {
    gpu->Fail(InternalError("fell off the bus"));
    return OkStatus();
  };
  const auto result = EvaluateOn(std::move(device));
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
  EXPECT_THAT(result.status().message(), testing::HasSubstr("fell off the bus"));
}

}  // namespace
}  // namespace hp::test

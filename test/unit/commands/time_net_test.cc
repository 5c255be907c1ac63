#include "commands/time_net.h"

#include "proto/text.h"
#include "test/support/fake_device.h"
#include "test/support/local_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp::test {
namespace {

class TimeNetTest : public testing::Test {
 protected:
  TimeNetTest() {
    WriteFile(folder_ / "net.prototxt",
              "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 4 } }\n"
              "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 5 "
              "kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
              "layer { name: 'drop' type: 'Dropout' bottom: 'conv' top: 'conv' }\n"
              "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { num_output: 3 "
              "weight_filler { type: 'xavier' } } }\n"
              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n");
    options_.sample = {Shape{3, 8, 8}, {}};
    options_.iterations = 2;
    options_.threads = 1;
  }

  StatusOr<std::vector<TimedLayer>> Time(const NodeDevice& device) {
    HP_ASSIGN_OR_RETURN(caffe::NetParameter net, ReadNet(folder_ / "net.prototxt"));
    return TimeNet(std::make_shared<const caffe::NetParameter>(std::move(net)), device.device.get(),
                   device.backend.get(), options_);
  }

  const TempFolder folder_;
  TimeNetOptions options_;
};

/// A fake GPU ends with SIGSEGV whoever touches its memory from the host.
TEST_F(TimeNetTest, LayersOnEachDeviceInTheirOrder) {
  for (const bool gpu : {false, true}) {
    StatusOr<NodeDevice> device = gpu ? FakeDevice({.protect = true}) : OpenNodeDevice("cpu", RoutingTableConfig::FP32);
    ASSERT_TRUE(device.ok()) << device.status();
    const auto layers = Time(*device);
    ASSERT_TRUE(layers.ok()) << layers.status();
    std::vector<std::string> names;
    for (const TimedLayer& layer : *layers) {
      if (layer.name.empty()) continue;
      names.push_back(layer.name);
      EXPECT_GT(layer.forward_s, 0) << layer.name;
      EXPECT_GT(layer.backward_s, 0) << layer.name;
    }
    EXPECT_EQ(names, (std::vector<std::string>{"conv", "drop", "ip", "loss"}));
  }
}

TEST_F(TimeNetTest, AFailingGpuEndsIt) {
  StatusOr<NodeDevice> device = FakeDevice({});
  ASSERT_TRUE(device.ok()) << device.status();
  options_.on_iteration = [&](int64_t, double) {
    static_cast<FakeGpu*>(device->device.get())->Fail(InternalError("fell off the bus"));
  };
  const auto layers = Time(*device);
  EXPECT_EQ(layers.status().code(), StatusCode::kInternal);
  EXPECT_THAT(layers.status().message(), testing::HasSubstr("fell off the bus"));
}

}  // namespace
}  // namespace hp::test

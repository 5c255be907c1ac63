// The large nets of examples/, as far as they go without data: both phases, and as many parameters as their papers'
// nets.
#include "net/plan/graph.h"
#include "proto/text.h"

#include <gtest/gtest.h>

#include <string>

namespace hp::test {
namespace {

struct Example {
  std::string name;
  int64_t crop;
  int64_t parameters;  ///< running statistics included; shared ones once
  size_t losses;
  std::string net = "train_val";  ///< NAME_NET.prototxt
  int64_t channels = 3;
  bool tests_more = true;  ///< a test has an accuracy, or the like
};

class ExampleNet : public testing::TestWithParam<Example> {};

int64_t ParametersOf(const NetGraph& graph, const std::vector<Shape>& shapes) {
  int64_t count = 0;
  for (const GraphLayer& layer : graph.layers()) {
    if (layer.source) continue;
    std::vector<Shape> in;
    for (int bottom : layer.bottoms) in.push_back(shapes[bottom]);
    int blob = 0;
    for (const ParamSpec& spec : layer.traits.Params(in)) {
      const SharedParams::Param* const shared = graph.shared().Find(layer.traits.name(), blob++);
      if (shared == nullptr || shared->uses[0].layer == layer.traits.name()) count += spec.shape.count();
    }
  }
  return count;
}

TEST_P(ExampleNet, HasItsParametersAndLosses) {
  const Example& example = GetParam();
  const std::string folder = "examples/" + example.name + "/" + example.name;
  const auto solver = ReadSolver(folder + "_solver.prototxt");
  ASSERT_TRUE(solver.ok()) << solver.status();
  auto net = ReadNet(folder + "_" + example.net + ".prototxt");
  ASSERT_TRUE(net.ok()) << net.status();
  const auto shared = std::make_shared<const caffe::NetParameter>(*std::move(net));
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    const auto graph = NetGraph::Create(shared, phase);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto shapes = (*graph)->Shapes({example.channels, example.crop, example.crop}, 1);
    ASSERT_TRUE(shapes.ok()) << shapes.status();
    EXPECT_EQ(ParametersOf(**graph, *shapes), example.parameters);
    size_t losses = 0;
    for (int output : (*graph)->outputs()) losses += (*graph)->blobs()[output].name.find("loss") == 0;
    if (phase == caffe::TRAIN) {
      EXPECT_EQ(losses, example.losses);
    } else {
      EXPECT_EQ((*graph)->outputs().size() > example.losses, example.tests_more);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleNet,
                         testing::Values(Example{"alexnet", 227, 60'965'224, 1}, Example{"vgg16", 224, 138'357'544, 1},
                                         Example{"googlenet", 224, 13'378'280, 3},
                                         Example{"lenet", 28, 431'080, 1, "train_test", 1},
                                         Example{"mnist_siamese", 28, 431'102, 1, "train_test", 2, false},
                                         Example{"mnist_autoencoder", 28, 2'837'314, 0, "train_test", 1},
                                         Example{"caffenet", 227, 60'965'224, 1}, Example{"vgg19", 224, 143'667'240, 1},
                                         Example{"nin", 224, 7'595'176, 1}, Example{"squeezenet", 227, 1'235'496, 1},
                                         Example{"resnet50", 224, 25'557'032 + 53'120 + 53, 1}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp::test

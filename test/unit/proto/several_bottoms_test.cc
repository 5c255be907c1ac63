#include "proto/several_bottoms.h"

#include "proto/place.h"
#include "proto/text.h"
#include "test/unit/proto/file_test.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

caffe::NetParameter NetOf(const std::string& text) {
  caffe::NetParameter net;
  EXPECT_TRUE(ParseTextProto(text, "net.prototxt", &net).ok());
  return net;
}

constexpr char kPairs[] = R"net(layer { name: "a" type: "ReLU" }
layer { name: "c" type: "Convolution" bottom: "x" bottom: "y" top: "cx" top: "cy" loss_weight: 0 loss_weight: 2
  propagate_down: true propagate_down: false param { lr_mult: 3 } param { name: "mine" } include { phase: TRAIN } }
layer { name: "d" type: "Deconvolution" bottom: "cx" bottom: "cy" top: "dx" top: "dy"
  convolution_param { bias_term: false } }
layer { name: "odd" type: "Convolution" bottom: "x" bottom: "y" top: "z" })net";

constexpr char kPairsSplit[] = R"net(layer { name: "a" type: "ReLU" }
layer { name: "c" type: "Convolution" bottom: "x" top: "cx" loss_weight: 0 propagate_down: true
  param { name: "blob 0 of c, layer 1" lr_mult: 3 } param { name: "mine" } include { phase: TRAIN } }
layer { name: "c(2)" type: "Convolution" bottom: "y" top: "cy" loss_weight: 2 propagate_down: false
  param { name: "blob 0 of c, layer 1" lr_mult: 3 } param { name: "mine" } include { phase: TRAIN } }
layer { name: "d" type: "Deconvolution" bottom: "cx" top: "dx" param { name: "blob 0 of d, layer 2" }
  convolution_param { bias_term: false } }
layer { name: "d(2)" type: "Deconvolution" bottom: "cy" top: "dy" param { name: "blob 0 of d, layer 2" }
  convolution_param { bias_term: false } }
layer { name: "odd" type: "Convolution" bottom: "x" bottom: "y" top: "z" })net";

TEST(SeveralBottoms, BecomeLayersThatShare) {
  caffe::NetParameter net = NetOf(kPairs);
  EXPECT_THAT(SplitSeveralBottoms(&net),
              ElementsAre(HasSubstr("layer \"c\", a Convolution of 2 bottoms"), HasSubstr("\"d\", a Deconvolution")));
  EXPECT_EQ(net.DebugString(), NetOf(kPairsSplit).DebugString());
  EXPECT_TRUE(SplitSeveralBottoms(&net).empty());
}

class SeveralBottomsTest : public test::FileTest {};

std::string ConvolutionOfTwo(const std::string& name) {
  static int count = 0;
  const std::string top = "t" + std::to_string(count++);
  return "layer { " + (name.empty() ? "" : "name: '" + name + "' ") +
         "type: 'Convolution' bottom: 'x' bottom: 'y' top: '" + top + "' top: '" + top +
         "_2' convolution_param { num_output: 2 kernel_size: 1 } }\n";
}

/// Layers of one name, or of none, are several layers, and so are their blobs; a part's name may be taken.
TEST_F(SeveralBottomsTest, LayersOfOneNameShareNothing) {
  const auto net = ReadNet(Write("net.prototxt", ConvolutionOfTwo("c") + ConvolutionOfTwo("c") + ConvolutionOfTwo("") +
                                                     ConvolutionOfTwo("") + ConvolutionOfTwo("c(2)")));
  ASSERT_TRUE(net.ok()) << net.status();
  std::vector<std::string> names;
  std::set<std::string> blobs;
  for (const caffe::LayerParameter& layer : net->layer()) {
    names.push_back(layer.name());
    blobs.insert(layer.param(0).name());
  }
  EXPECT_THAT(names, ElementsAre("c", "c(2)", "c#2", "c#2(2)", "Convolution", "Convolution(2)", "Convolution#2",
                                 "Convolution#2(2)", "c(2)#2", "c(2)(2)"));
  EXPECT_EQ(blobs.size(), 5u);
}

TEST_F(SeveralBottomsTest, FaultsOfAPartHaveThePlaceOfTheLayer) {
  const auto net = ReadNet(Write("net.prototxt", "name: 'n'\n" + ConvolutionOfTwo("c")));
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_THAT(AtLayer(InvalidArgument("layer \"c(2)\": no"), *net).message(),
              HasSubstr("net.prototxt:2: layer \"c(2)\""));
}

}  // namespace
}  // namespace hp

#include "net/plan/labels_ahead.h"
#include "test/unit/net/net_test_util.h"

#include "gmock/gmock.h"

#include <tuple>

namespace hp::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kData =
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n";
const std::string kConv =
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 4 "
    "kernel_size: 3 } }\n";

std::string ErrorOf(const std::string& text, caffe::Phase phase = caffe::TRAIN) {
  const auto graph = NetGraph::Create(ParseNet(text), phase);
  if (graph.ok()) return "";
  EXPECT_EQ(graph.status().code(), StatusCode::kInvalidArgument);
  return graph.status().message();
}

/// Whatever says that it is in the training: a state's stage, too.
TEST(GraphErrors, WhatDrawsNothingIsNotTrained) {
  for (const std::string pool : {"type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 2 }",
                                 "type: 'SPP' spp_param { pool: STOCHASTIC pyramid_height: 1 }"}) {
    const std::string layer = "layer { name: 'p' bottom: 'data' top: 'p' phase: TEST " + pool;
    const auto refused = HasSubstr("layer \"p\": phase: TEST with pool: STOCHASTIC: in training no value");
    EXPECT_THAT(ErrorOf(kData + layer + " }"), refused);
    EXPECT_THAT(ErrorOf("state { stage: 'a' } " + kData + layer + " include { stage: 'a' } }"), refused);
    EXPECT_EQ(ErrorOf(kData + layer + " }", caffe::TEST), "");
  }
}

TEST(GraphErrors, WhatDropsAllIsNotTrained) {
  const std::string layer =
      "layer { name: 'd' bottom: 'data' top: 'd' type: 'Dropout' dropout_param { dropout_ratio: 1 } ";
  EXPECT_THAT(ErrorOf(kData + layer + "}"), HasSubstr("layer \"d\": dropout_ratio 1 is not in [0, 1): in training"));
  EXPECT_EQ(ErrorOf(kData + layer + "phase: TEST }"), "");
  EXPECT_EQ(ErrorOf(kData + layer + "}", caffe::TEST), "");
}

TEST(GraphErrors, NameTheLayerAndWhatIsWrong) {
  EXPECT_THAT(ErrorOf(kData + "layer { name: 'r' type: 'ReLU' bottom: 'datum' top: 'r' }"),
              AllOf(HasSubstr("\"r\""), HasSubstr("\"datum\""), HasSubstr("not produced by any earlier layer")));
  // A bottom that only a later layer makes.
  EXPECT_THAT(ErrorOf(kData + "layer { name: 'r' type: 'ReLU' bottom: 'conv' top: 'r' }" + kConv),
              AllOf(HasSubstr("\"r\""), HasSubstr("\"conv\"")));
  EXPECT_THAT(ErrorOf(kData + kConv + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'conv' }"),
              AllOf(HasSubstr("\"r\""), HasSubstr("already produced by layer \"conv\"")));
  EXPECT_THAT(ErrorOf(kData + "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'a' }"),
              HasSubstr("layer \"s\": has the top \"a\" twice"));
  EXPECT_THAT(ErrorOf(kData + "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'data' convolution_param { "
                              "num_output: 4 kernel_size: 3 } }"),
              AllOf(HasSubstr("\"c\""), HasSubstr("in place"), HasSubstr("Convolution")));
  EXPECT_THAT(ErrorOf(kData + kConv +
                      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'conv' bottom: 'conv' top: "
                      "'l' }"),
              HasSubstr("layer \"l\": its targets, bottom \"conv\", depend on parameters that learn"));
  EXPECT_THAT(ErrorOf(kData + "layer { name: 'more' type: 'Data' top: 'd2' data_param { source: 'y' batch_size: 9 } }"),
              AllOf(HasSubstr("\"more\" has a batch of 9"), HasSubstr("\"data\" of 8")));
  EXPECT_THAT(
      ErrorOf(kData + kConv + "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'conv' bottom: 'label' top: 'l' }" +
              "layer { name: 'p' type: 'Power' bottom: 'l' top: 'p' }"),
      HasSubstr("layer \"p\": bottom \"l\" is a number of a whole batch"));
  EXPECT_THAT(ErrorOf(kData + "layer { name: 'x' type: 'Xyz' bottom: 'data' top: 'x' }"),
              AllOf(HasSubstr("\"x\""), HasSubstr("Xyz")));
  EXPECT_THAT(ErrorOf("name: 'train only' layer { name: 'd' type: 'Data' top: 'd' include { phase: TRAIN } data_param "
                      "{ source: 'x' batch_size: 1 } }",
                      caffe::TEST),
              AllOf(HasSubstr("train only"), HasSubstr("TEST")));
}

TEST(Graph, OverwritesOnlyWhatNobodyElseReads) {
  const auto graph = NetGraph::Create(ParseNet(kData + kConv +
                                               "layer { name: 'a' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"
                                               "layer { name: 'b' type: 'TanH' bottom: 'conv' top: 'b' }\n"
                                               "layer { name: 'c' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"),
                                      caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE((*graph)->layers()[2].in_place);
  EXPECT_FALSE((*graph)->layers()[4].in_place) << "layer b still reads the value";
  // b reads what a made, not what c makes.
  EXPECT_EQ((*graph)->layers()[3].bottoms, (*graph)->layers()[2].tops);
}

TEST(Graph, ALossWithoutATopIsNoOutput) {
  const std::string loss = "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'conv' bottom: 'label' }\n";
  const auto graph = NetGraph::Create(ParseNet(kData + kConv + loss + loss), caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int layer : {2, 3}) {
    ASSERT_EQ((*graph)->layers()[layer].tops.size(), 1u);
    EXPECT_TRUE((*graph)->layers()[layer].leads_to_loss);
    const GraphBlob& top = (*graph)->blobs()[(*graph)->layers()[layer].tops[0]];
    EXPECT_TRUE(top.automatic && top.needs_gradient);
  }
  EXPECT_TRUE((*graph)->outputs().empty());
  EXPECT_THAT(ErrorOf(kData + kConv + loss + "layer { name: 'r' type: 'ReLU' bottom: '(automatic)' top: 'r' }"),
              HasSubstr("not produced by any earlier layer"));
}

// Whoever takes labels as labels reads them as ever; for others there is an entry behind the source.
TEST(Graph, LabelsAreAnOrdinaryBlobForOtherReaders) {
  const std::string loss = "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'conv' bottom: 'label' top: 'loss' }\n";
  const auto without = NetGraph::Create(ParseNet(kData + kConv + loss), caffe::TRAIN);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ((*without)->layers().size(), 3u);
  const auto graph = NetGraph::Create(
      ParseNet(kData + kConv + loss + "layer { name: 'p' type: 'Power' bottom: 'label' top: 'label' }\n" +
               "layer { name: 'm' type: 'HingeLoss' bottom: 'conv' bottom: 'label' top: 'm' }\n"),
      caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<GraphLayer>& layers = (*graph)->layers();
  ASSERT_EQ(layers.size(), 6u);
  EXPECT_EQ(layers[1].piece, GraphLayer::kLabels);
  EXPECT_EQ(layers[1].name(), "label.values");
  EXPECT_EQ(layers[1].order, 0) << "in the stage that reads the samples";
  EXPECT_TRUE(layers[1].is_label(0));
  EXPECT_TRUE(layers[3].is_label(1)) << "the loss reads labels";
  EXPECT_EQ(layers[4].bottoms, layers[1].tops) << "the Power reads the ordinary blob";
  EXPECT_FALSE((*graph)->blobs()[layers[1].tops[0]].label);
  EXPECT_TRUE(layers[5].tensor_labels && !layers[5].is_label(1)) << "and behind it labels are computed";
}

// Of several tops, each cut as layers cut it, and of each number that somebody counts one.
TEST(Graph, WhatIsToldOfLabelsAheadOfThem) {
  const auto loss = [](const std::string& label, const std::string& fields) {
    return "layer { name: 'l_" + label + "' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: '" + label + "' top: 'l_" +
           label + "' loss_param { " + fields + " } }\n";
  };
  const auto graph = NetGraph::Create(
      ParseNet(
          "layer { name: 'h' type: 'HDF5Data' top: 'data' top: 'label' top: 'more' hdf5_data_param { source: 'x' "
          "batch_size: 4 } }\n"
          "layer { name: 'cut' type: 'Slice' bottom: 'label' top: 'a' top: 'b' slice_param { slice_point: 1 } }\n"
          "layer { name: 'cut2' type: 'Slice' bottom: 'more' top: 'c' top: 'd' slice_param { axis: 2 } }\n"
          "layer { name: 'shaped' type: 'Flatten' bottom: 'd' top: 'e' }\n"
          "layer { name: 'made' type: 'Threshold' bottom: 'b' top: 'f' }\n"
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 5 } }\n" +
          loss("a", "ignore_label: 0") + loss("e", "ignore_label: 1") + loss("d", "") + loss("f", "") +
          loss("label", "ignore_label: 2")),
      caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const SampleShape sample(Shape{4}, Shape{3}, {Shape{2, 2}});
  EXPECT_EQ(LabelsOfRow(**graph, sample), 3 + 4);
  std::vector<std::vector<int64_t>> columns;
  for (const GraphLayer& layer : (*graph)->layers()) {
    if (layer.traits.type() == "SoftmaxWithLoss") columns.push_back(LabelColumnsOf(**graph, layer, sample));
  }
  EXPECT_EQ(columns, (std::vector<std::vector<int64_t>>{{0}, {4, 6}, {4, 6}, {}, {0, 1, 2}}));
  const std::vector<LabelNumber> numbers = LabelNumbersOf(**graph, sample);
  ASSERT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers[0].columns, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_TRUE(numbers[0].is_count && numbers[0].ignore_label == 2);
  EXPECT_EQ(numbers[1].columns, (std::vector<int64_t>{0}));
  EXPECT_FALSE(numbers[1].is_count) << "the label itself";
  EXPECT_EQ(numbers[2].columns, (std::vector<int64_t>{4, 6}));
  EXPECT_TRUE(numbers[2].is_count && numbers[2].ignore_label == 1);
}

// The sum of a blob that has a loss_weight is a statistic behind its layer; what learns below it learns by it.
TEST(Graph, WeightedBlobs) {
  const auto graph = NetGraph::Create(
      ParseNet(kData + kConv +
               "layer { name: 'a' type: 'TanH' bottom: 'conv' top: 'conv' loss_weight: 0.5 }\n"
               "layer { name: 's' type: 'Slice' bottom: 'conv' top: 'x' top: 'y' loss_weight: 0 loss_weight: 2 }\n"),
      caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<GraphLayer>& layers = (*graph)->layers();
  ASSERT_EQ(layers.size(), 6u);
  for (const auto& [index, name, weight] : {std::tuple(3, "conv.weighted", 0.5f), std::tuple(5, "y.weighted", 2.0f)}) {
    EXPECT_EQ(layers[index].piece, GraphLayer::kWeighted);
    EXPECT_EQ(layers[index].name(), name);
    EXPECT_TRUE(layers[index].is_statistic() && layers[index].leads_to_loss);
    EXPECT_EQ(layers[index].traits.loss_weight(0), weight);
  }
  EXPECT_EQ(layers[3].bottoms, layers[2].tops) << "of the value that the layer in place has made";
  EXPECT_TRUE(layers[1].leads_to_loss && layers[4].leads_to_loss);
  ASSERT_EQ((*graph)->outputs().size(), 1u) << "the Slice reads the other";
  EXPECT_EQ((*graph)->blobs()[(*graph)->outputs()[0]].name, "y");
  const auto shapes = (*graph)->Shapes(Shape{3, 8, 8}, 4);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ((*shapes)[layers[5].tops[0]], Shape{1});
}

TEST(Graph, ASilenceIsNoEntryAndNoConsumer) {
  const std::string net = kData + kConv +
                          "layer { name: 's' type: 'Silence' bottom: 'conv' bottom: 'label' bottom: 'data' }\n"
                          "layer { name: 'r' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"
                          "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'conv' bottom: 'label' top: 'loss' }\n"
                          "layer { name: 'a' type: 'Accuracy' bottom: 'conv' bottom: 'label' top: 'accuracy' }\n";
  const auto graph =
      NetGraph::Create(ParseNet(net + "layer { name: 't' type: 'Silence' bottom: 'accuracy' }"), caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ((*graph)->layers().size(), 5u);
  EXPECT_TRUE((*graph)->layers()[2].in_place) << "a Silence reads nothing that could be lost";
  for (const GraphBlob& blob : (*graph)->blobs()) {
    const bool silenced = blob.producer <= 1 || blob.name == "accuracy";
    EXPECT_EQ(blob.silenced, silenced) << blob.name << " of layer " << blob.producer;
  }
  ASSERT_EQ((*graph)->outputs().size(), 1u) << "the silenced accuracy is none";
  EXPECT_EQ((*graph)->blobs()[(*graph)->outputs()[0]].name, "loss");
  EXPECT_EQ(ErrorOf(net + "layer { name: 't' type: 'Silence' bottom: 'nothing' }"),
            "layer \"t\": bottom \"nothing\" is not produced by any earlier layer");
}

TEST(Graph, BottomsOfLayersThatAreLeftOut) {
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'conv' top: 'conv' }\n";
  std::string conv = kConv;
  conv.insert(conv.find("name:"), "include { stage: 'deep' not_stage: 'old' } ");
  const std::string said =
      "layer \"r\": bottom \"conv\" is not produced by any earlier layer; layer \"conv\" makes it, "
      "but its include and exclude rules leave it out in phase TRAIN with level ";
  EXPECT_EQ(ErrorOf(kData + conv + relu), said + "0 and no stage");
  EXPECT_EQ(ErrorOf("state { level: 2 stage: 'deep' stage: 'old' }\n" + (kData + conv + relu)),
            said + "2 and stages deep, old");
}

/// It is the layer that reads it, under its name.
TEST(Graph, AParameterIsHeldByItsReader) {
  const std::string parameter = "layer { name: 'p' type: 'Parameter' top: 'q' parameter_param { shape { dim: 6 } } }\n";
  const std::string bias =
      "layer { name: 'b' type: 'Bias' bottom: 'conv' bottom: 'q' top: 'y' propagate_down: [true, false] }\n";
  const std::string loss = "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' }\n";
  const auto graph = NetGraph::Create(ParseNet(kData + kConv + parameter + bias + loss), caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const GraphLayer& layer = (*graph)->layers()[2];
  EXPECT_EQ(layer.name(), "p");
  EXPECT_EQ(layer.order, 3) << "where the Bias stands";
  EXPECT_EQ(layer.bottoms.size(), 1u);
  EXPECT_EQ(layer.blobs(), 1);
  EXPECT_FALSE(layer.learns);
  const std::string net = kData + kConv + parameter;
  EXPECT_EQ(ErrorOf(net + loss), "layer \"l\": bottom \"y\" is not produced by any earlier layer");
  EXPECT_THAT(ErrorOf(net), HasSubstr("layer \"p\": no layer of phase TRAIN reads its top \"q\"; expected a Scale"));
  EXPECT_THAT(
      ErrorOf(kData + kConv + "layer { name: 'p' type: 'Parameter' top: 'conv' parameter_param { shape { dim: 6 } } }"),
      HasSubstr("top \"conv\" is already produced by layer \"conv\""));
  const auto scale = [&](const std::string& fields) {
    return ErrorOf(net + "layer { name: 's' type: 'Scale' bottom: 'conv' bottom: 'q' top: 'y' " + fields + " }");
  };
  EXPECT_THAT(scale("scale_param { bias_term: true }"),
              HasSubstr("layer \"s\": scale_param { bias_term: true } with a"));
  EXPECT_THAT(scale("scale_param { axis: 0 }"), HasSubstr("has a number for each row of a batch; expected axis 1"));
  EXPECT_THAT(scale("param { lr_mult: 0 }"), HasSubstr("has param or blobs, but no blob of its own"));
  EXPECT_THAT(scale("scale_param { filler { value: 1 } }"), Not(HasSubstr("filler")));
  EXPECT_THAT(scale("propagate_down: true"), HasSubstr("has 2 bottoms and 1 propagate_down values"));
  EXPECT_EQ(ErrorOf(net + bias + "layer { name: 's' type: 'Scale' bottom: 'y' bottom: 'q' top: 'z' }"),
            "layer \"s\": bottom \"q\" is read by layer \"b\" as well; expected a Parameter for each");
  EXPECT_EQ(
      ErrorOf(net + "layer { name: 'e' type: 'Eltwise' bottom: 'conv' bottom: 'q' top: 'z' }"),
      "layer \"e\": bottom \"q\" is that of a Parameter, which has no rows of samples; only a Scale or Bias reads "
      "it, as its second bottom");
}

TEST(Graph, NoGradientGoesThroughAThreshold) {
  const auto graph = NetGraph::Create(
      ParseNet(kData + kConv +
               "layer { name: 't' type: 'Threshold' bottom: 'conv' top: 't' }\n"
               "layer { name: 'ip' type: 'InnerProduct' bottom: 't' top: 'ip' inner_product_param { num_output: 5 } }\n"
               "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"),
      caffe::TRAIN);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto& layers = (*graph)->layers();
  EXPECT_FALSE(layers[1].leads_to_loss || layers[2].leads_to_loss);
  EXPECT_TRUE(layers[3].leads_to_loss);
  EXPECT_FALSE((*graph)->blobs()[layers[2].tops[0]].needs_gradient);
  EXPECT_TRUE((*graph)->blobs()[layers[3].tops[0]].needs_gradient);
}

/// Its own table learns.
TEST(Graph, NoGradientGoesToTheNumbersOfAnEmbed) {
  for (const bool frozen : {false, true}) {
    const auto graph = NetGraph::Create(
        ParseNet(kData + kConv + "layer { name: 'e' type: 'Embed' bottom: 'conv' top: 'e' " +
                 (frozen ? "param { lr_mult: 0 } param { lr_mult: 0 } " : "") +
                 "embed_param { num_output: 4 input_dim: 9 } }\n"
                 "layer { name: 'ip' type: 'InnerProduct' bottom: 'e' top: 'ip' inner_product_param { num_output: 5 } "
                 "}\n"
                 "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"),
        caffe::TRAIN);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto& layers = (*graph)->layers();
    EXPECT_TRUE((*graph)->blobs()[layers[1].tops[0]].needs_gradient) << "its convolution would learn";
    EXPECT_FALSE(layers[1].leads_to_loss);
    EXPECT_TRUE(layers[2].leads_to_loss);
    EXPECT_FALSE(layers[2].propagates(0));
    EXPECT_EQ((*graph)->blobs()[layers[2].tops[0]].needs_gradient, !frozen);
  }
}

TEST(Graph, KnowsWhatLearns) {
  for (bool frozen : {false, true}) {
    const auto graph = NetGraph::Create(ParseNet(SmallNet(frozen)), caffe::TRAIN);
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const GraphBlob& blob : (*graph)->blobs()) {
      const bool above = blob.name.starts_with("ip") || blob.name == "loss";
      const bool conv = blob.name == "conv1" || blob.name == "pool1";
      EXPECT_EQ(blob.needs_gradient, above || (conv && !frozen)) << blob.name;
      EXPECT_EQ(blob.label, blob.name == "label");
    }
    EXPECT_EQ((*graph)->outputs().size(), 1u);
    EXPECT_EQ((*graph)->batch_size(), 8);
  }
  const auto test = NetGraph::Create(ParseNet(SmallNet()), caffe::TEST);
  ASSERT_TRUE(test.ok());
  for (const GraphBlob& blob : (*test)->blobs()) EXPECT_FALSE(blob.needs_gradient) << blob.name;
}

TEST(Graph, ShapesOfAllBlobs) {
  const auto graph = NetGraph::Create(ParseNet(SmallNet()), caffe::TRAIN);
  ASSERT_TRUE(graph.ok());
  const auto shapes = (*graph)->Shapes(Shape{3, 8, 8}, 4);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  const std::vector<Shape> expected = {{4, 3, 8, 8}, {4},     {4, 6, 6, 6}, {4, 6, 3, 3},
                                       {4, 50},      {4, 50}, {4, 30},      {4, 5}};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*shapes)[i], expected[i]) << (*graph)->blobs()[i].name;
}

}  // namespace
}  // namespace hp::test

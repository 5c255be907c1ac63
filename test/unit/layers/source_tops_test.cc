#include "layers/traits/source_tops.h"

#include "proto/caffe.pb.h"

#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hp {
namespace {

caffe::NetParameter Net(const std::string& text) {
  caffe::NetParameter net;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &net));
  return net;
}

std::string Hdf5(const std::string& name, const std::string& tops) {
  return "layer { name: '" + name + "' type: 'HDF5Data' " + tops + " hdf5_data_param { source: 'l' batch_size: 4 } }";
}
std::string Loss(const std::string& type, const std::string& scores, const std::string& label,
                 const std::string& fields = "") {
  return "layer { name: '" + label + "_loss' type: '" + type + "' bottom: '" + scores + "' bottom: '" + label +
         "' top: '" + label + "_loss' " + fields + " }";
}
std::string Ip(const std::string& bottom) {
  return "layer { name: 'ip' type: 'InnerProduct' bottom: '" + bottom +
         "' top: 'ip' inner_product_param { num_output: 3 } }";
}

/// "d" of data, "l" of labels, "o" of others, by top; behind labels "v" if they are read as values, too, and "n" if
/// nobody takes them for classes.
std::string Roles(const std::string& text) {
  std::string roles;
  for (const SourceTop& top : SourceTopsOf(Net(text), caffe::TRAIN, LayerTypes::BuiltIn())) {
    roles += top.role == SourceTop::kData ? "d" : top.role == SourceTop::kLabels ? "l" : "o";
    if (top.role != SourceTop::kLabels) continue;
    if (!top.goes_ahead) roles += "n";
    if (top.read_as_values) roles += "v";
  }
  return roles;
}

TEST(SourceTops, LabelsAreWhatALayerReadsAsSuch) {
  const std::string two = Hdf5("h", "top: 'a' top: 'b'");
  EXPECT_EQ(Roles(two + Ip("a") + Loss("SoftmaxWithLoss", "ip", "b")), "dl");
  EXPECT_EQ(Roles(two + Ip("b") + Loss("SoftmaxWithLoss", "ip", "a")), "ld") << "in whatever place";
  EXPECT_EQ(Roles(two + Ip("a")), "dln") << "nobody reads it";
  EXPECT_EQ(Roles(two + Ip("b")), "do") << "rows of numbers that somebody reads";
  EXPECT_EQ(Roles(two + Ip("a") + Loss("EuclideanLoss", "ip", "b")), "do") << "perhaps a vector of targets";
  EXPECT_EQ(Roles(two + Ip("a") + Loss("SoftmaxWithLoss", "ip", "b") +
                  "layer { name: 't' type: 'Power' bottom: 'b' top: 't' }"),
            "dlv");
  EXPECT_EQ(Roles(two + "layer { name: 't' type: 'Power' bottom: 'b' top: 'b' }" + Ip("a") +
                  Loss("SoftmaxWithLoss", "ip", "b")),
            "do")
      << "the loss reads what the layer in place has made of them";
  EXPECT_EQ(Roles(two + Ip("a") + "layer { name: 's' type: 'Silence' bottom: 'b' }"), "dln");
  EXPECT_EQ(Roles(Hdf5("h", "top: 'a'") + Ip("a") + Loss("SoftmaxWithLoss", "ip", "a")), "d") << "there must be data";
}

/// The label of a Datum is one number, which goes ahead, whoever reads it.
TEST(SourceTops, LabelsOfRecords) {
  const std::string data =
                        "layer { name: 'd' type: 'Data' top: 'a' top: 'b' data_param { source: 's' batch_size: 4 } }",
                    list =
                        "layer { name: 'd' type: 'ImageData' top: 'a' top: 'b' image_data_param { source: 's' "
                        "batch_size: 4 } }";
  for (const std::string& source : {data, list}) {
    EXPECT_EQ(Roles(source + Ip("a") + Loss("EuclideanLoss", "ip", "b")), "dln");
    EXPECT_EQ(Roles(source + "layer { name: 't' type: 'Power' bottom: 'b' top: 'b' }" + Ip("a") +
                    Loss("SoftmaxWithLoss", "ip", "b")),
              "dlnv");
  }
}

TEST(SourceTops, OneOfSeveralGoesAhead) {
  const std::string three = Hdf5("h", "top: 'a' top: 'b' top: 'c'") + Ip("a");
  EXPECT_EQ(Roles(three + Loss("SoftmaxWithLoss", "ip", "c") + Loss("SoftmaxWithLoss", "ip", "b")), "dlo");
  EXPECT_EQ(Roles(three + Loss("EuclideanLoss", "ip", "b") + Loss("SoftmaxWithLoss", "ip", "c")), "dol");
  EXPECT_EQ(Roles(three + Loss("SoftmaxWithLoss", "ip", "b") +
                  Loss("SoftmaxWithLoss", "ip", "c", "loss_param { ignore_label: 0 }")),
            "dol")
      << "of which one must know how many count";
  EXPECT_EQ(
      Roles(three + Loss("SoftmaxWithLoss", "ip", "b") +
            "layer { name: 'wide' type: 'InnerProduct' bottom: 'a' top: 'wide' inner_product_param { num_output: 9 "
            "sample_rate: 0.5 } }" +
            Loss("SoftmaxWithLoss", "wide", "c")),
      "dol")
      << "by which a sample of classes is drawn";
}

/// Those that layers take for classes, wherever these stand, or count.
TEST(SourceTops, SeveralAreToldAhead) {
  const auto ahead = [](const std::string& text) {
    std::string said;
    for (const SourceTop& top : SourceTopsOf(Net(text), caffe::TRAIN, LayerTypes::BuiltIn()))
      said += top.goes_ahead ? "a" : "-";
    return said;
  };
  const std::string four =
      Hdf5("h", "top: 'a' top: 'b' top: 'c' top: 'd'") + Ip("a") + Loss("SoftmaxWithLoss", "ip", "b");
  EXPECT_EQ(ahead(four), "-a--");
  EXPECT_EQ(ahead(four + "layer { name: 's' type: 'Slice' bottom: 'd' top: 'd0' top: 'd1' }" +
                  Loss("SoftmaxWithLoss", "ip", "d1")),
            "-a-a");
  EXPECT_EQ(ahead(four + "layer { name: 't' type: 'Power' bottom: 'c' top: 'e' }" + Loss("SoftmaxWithLoss", "ip", "e")),
            "-a--")
      << "computed";
  EXPECT_EQ(ahead(four + Loss("SigmoidCrossEntropyLoss", "ip", "c")), "-a--");
  EXPECT_EQ(ahead(four + Loss("SigmoidCrossEntropyLoss", "ip", "c", "loss_param { ignore_label: 1 normalize: true }")),
            "-aa-");
}

TEST(SourceTops, OfSeveralLayers) {
  const std::string pair = Hdf5("h", "top: 'a'") + Hdf5("g", "top: 'b'");
  EXPECT_EQ(Roles(pair + Ip("a") + Loss("SoftmaxWithLoss", "ip", "b")), "dl") << "images and images of labels";
  EXPECT_EQ(Roles(pair + Ip("a") + Loss("EuclideanLoss", "ip", "b")), "do");
  EXPECT_EQ(Roles(Hdf5("h", "top: 'a' top: 'b'") + Hdf5("g", "top: 'c' top: 'd'") + Ip("a")), "dlnoo");
  EXPECT_EQ(
      Roles("layer { name: 'i' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: 2 dim: 3 } } }" + Ip("a")),
      "do")
      << "nobody reads them as labels";
}

TEST(SourceTops, SourcesMustFitTogether) {
  const auto error = [](const std::string& text) {
    return CheckSources(Net(text), caffe::TRAIN, LayerTypes::BuiltIn()).message();
  };
  EXPECT_EQ(error(Hdf5("h", "top: 'a'") + Hdf5("g", "top: 'b'")), "");
  EXPECT_EQ(error(Hdf5("h", "top: 'a'") +
                  "layer { name: 'g' type: 'HDF5Data' top: 'b' hdf5_data_param { source: 'l' batch_size: 5 } }"),
            "layer \"g\" has a batch of 5 samples, and layer \"h\" of 4; expected the same");
  EXPECT_EQ(error(Hdf5("h", "top: 'a'") + "layer { name: 'g' type: 'HDF5Data' top: 'b' include { phase: TEST } "
                                          "hdf5_data_param { source: 'l' batch_size: 5 } }"),
            "");
}

}  // namespace
}  // namespace hp

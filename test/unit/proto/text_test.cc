#include "proto/text.h"

#include "proto/names.h"
#include "proto/routing.pb.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

std::string NetError(const std::string& text) {
  caffe::NetParameter net;
  const Status status = ParseTextProto(text, "net.prototxt", &net);
  EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kInvalidArgument);
  return status.message();
}

TEST(TextTest, ReadsWhatCaffeReads) {
  caffe::NetParameter net;
  ASSERT_TRUE(
      ParseTextProto("# a comment\nname: 'n' layer { name: \"a\" loss_weight: 1e-1 pooling_param { pool: AVE } }\n"
                     "layer < name: \"b\" >",
                     "net.prototxt", &net)
          .ok());
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(0).pooling_param().pool(), caffe::PoolingParameter::AVE);
  EXPECT_EQ(net.layer(1).name(), "b");
}

TEST(TextTest, MisspeltFieldNamesTheNearest) {
  EXPECT_EQ(NetError("layer {\n  convolution_param {\n    kernal_size: 3\n  }\n}\n"),
            "net.prototxt:3:5: unknown field \"kernal_size\" (did you mean \"kernel_size\"?); expected a field of "
            "\"convolution_param\"");
}

TEST(TextTest, ColumnIsTheFieldsEvenBeforeANewlineOrComment) {
  EXPECT_EQ(NetError("layer {\n  nam # nam\n\n  : 'x'\n}\n").substr(0, 37), "net.prototxt:2:3: unknown field \"nam\"");
}

TEST(TextTest, StrangeFieldListsTheFields) {
  EXPECT_EQ(
      NetError("layer { dropout_param { zzz: 1 } }"),
      "net.prototxt:1:25: unknown field \"zzz\"; expected a field of \"dropout_param\": dropout_ratio, scale_train");
}

// The field stands before or behind name and type, which may be in a message inside, too.
TEST(TextTest, FieldsOfForksNameLayerAndType) {
  EXPECT_EQ(
      NetError("layer {\n name: 'pool5' type: 'ROIPooling' bottom: 'rois'\n roi_pooling_param { pooled_w: 6 }\n}"),
      "net.prototxt:3:2: unknown field \"roi_pooling_param\" of layer \"pool5\": type ROIPooling is no layer of "
      "Caffe's but of a fork, and hpnode does not support it");
  EXPECT_EQ(
      NetError("layer { name: 'a' }\nlayer { bn_param { } param { name: 'w' } name: 'b' type: 'BN' }"),
      "net.prototxt:2:9: unknown field \"bn_param\" of layer \"b\": type BN is no layer of Caffe's but of a fork, "
      "and hpnode does not support it; expected a BatchNorm, and behind it a Scale with bias_term: true");
  EXPECT_EQ(NetError("layer { name: 'b' type: 'BatchNorm' bn_param { } }").substr(0, 81),
            "net.prototxt:1:37: unknown field \"bn_param\" of layer \"b\": type BN is no layer of ");
  EXPECT_EQ(
      NetError("layer { name: 'b' type: 'Mine' mine_param { x: 1 } }"),
      "net.prototxt:1:32: unknown field \"mine_param\" of layer \"b\": type Mine is no layer of Caffe's, and hpnode "
      "does not support it");
  EXPECT_EQ(NetError("layer { name: 'n' type: 'NdConvolution' convolution_param { kernel_shape { dim: 3 } } }"),
            "net.prototxt:1:61: unknown field \"kernel_shape\" in layer \"n\": type NdConvolution is no layer of "
            "Caffe's, and hpnode does not support it");
  EXPECT_EQ(
      NetError("layer { type: 'BN' slice_param { pieces: 3 } }"),
      "net.prototxt:1:34: unknown field \"pieces\": type BN is no layer of Caffe's but of a fork, and hpnode does "
      "not support it; expected a BatchNorm, and behind it a Scale with bias_term: true");
  EXPECT_EQ(NetError("layer { name: 'c' type: 'Convolution' convolution_parm { } }"),
            "net.prototxt:1:39: unknown field \"convolution_parm\" of layer \"c\" of type Convolution (did you mean "
            "\"convolution_param\"?); expected a field of \"layer\"");
  EXPECT_EQ(NetError("layer { norm_param { } }"),
            "net.prototxt:1:9: unknown field \"norm_param\": type Normalize is no layer of Caffe's but of a fork, and "
            "hpnode does not support it");
}

TEST(TextTest, MisspeltValueListsTheValues) {
  EXPECT_EQ(NetError("layer {\n pooling_param { pool: MAXX\n stride: 2 }\n}"),
            "net.prototxt:2:24: unknown value \"MAXX\" of field \"pool\"; expected one of MAX, AVE, STOCHASTIC");
}

TEST(TextTest, SaysWhatStoodThereAndWhatWasExpected) {
  EXPECT_EQ(NetError("layer { pooling_param { kernel_size: three } }"),
            "net.prototxt:1:38: found \"three\"; expected a whole number");
  EXPECT_EQ(NetError("layer {\n  name: conv\n}"), "net.prototxt:2:9: found \"conv\"; expected a string in quotes");
  EXPECT_EQ(NetError("layer { lrn_param { alpha: \"1\" } }"),
            "net.prototxt:1:28: found the string \"1\"; expected a number");
  EXPECT_EQ(NetError("layer {\n pooling_param { global_pooling: maybe }\n}"),
            "net.prototxt:2:34: found \"maybe\" for field \"global_pooling\"; expected true or false");
  EXPECT_EQ(NetError("layer { name: 'a'\n name: 'b' }"),
            "net.prototxt:2:2: field \"name\" is set a second time; expected at most once");
  EXPECT_EQ(NetError("layer { pooling_param { kernel_size: 99999999999 } }"),
            "net.prototxt:1:38: 99999999999 is out of range; expected a number that fits the field \"kernel_size\"");
  EXPECT_EQ(NetError("layer {\n  name \"conv\"\n}"), "net.prototxt:2:8: found the string \"conv\"; expected \":\"");
}

/// A list needs brackets: "device_id: 0,1" ends the field at its comma.
TEST(TextTest, AListWithoutBracketsNamesTheField) {
  EXPECT_EQ(NetError("layer { name: 'a' convolution_param { kernel_size: 3,5 } }"),
            "net.prototxt:1:54: found \"5\"; expected a field name behind the \",\" that ends field \"kernel_size\"");
  EXPECT_EQ(NetError("layer { name: 'a' convolution_param { kernel_size: [3, x] } }"),
            "net.prototxt:1:56: found \"x\"; expected a whole number");
}

TEST(TextTest, UnclosedBlockNamesWhereItBegan) {
  EXPECT_EQ(NetError("name: 'n'\nlayer {\n  name: 'a'\n"),
            "net.prototxt:4:1: found the end of the file; expected a field name or the \"}\" that closes \"layer\" of "
            "line 2");
  EXPECT_EQ(NetError("layer { name: 'a' }\n}\n"), "net.prototxt:2:1: found \"}\"; expected a field name");
}

TEST(TextTest, OnlyTheFirstFaultIsReported) {
  const std::string error = NetError("layer { nmae: 'a' typ: 'b' }\nlayer { bogus: 1 }");
  EXPECT_NE(error.find("nmae"), std::string::npos);
  EXPECT_EQ(error.find("bogus"), std::string::npos);
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(TextTest, DeepNestingAndRubbishAreErrors) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "layer {";
  EXPECT_NE(NetError(deep), "");
  EXPECT_NE(NetError(std::string("\0\1\2\xff layer", 10)), "");
  EXPECT_NE(NetError("layer { name: 'abc"), "");
}

/// As in a file that is cut, or was written in a text processor.
TEST(TextTest, StringsWithoutAnEndAndStrangeCharacters) {
  EXPECT_EQ(NetError("name: 'n'\nlayer { name: \"conv"),
            "net.prototxt:2:20: a string in quotes has no end; expected its second quote on the same line");
  EXPECT_EQ(NetError("name: \"n\nlayer { }"),
            "net.prototxt:1:9: a string in quotes has no end; expected its second quote on the same line");
  EXPECT_EQ(NetError("name: \xE2\x80\x9Cn\xE2\x80\x9D"),
            "net.prototxt:1:7: a character that is not ASCII; expected such characters in strings and comments alone");
  EXPECT_EQ(NetError("# \xC3\xBC\nname: '\xC3\xBC'"), "");
}

TEST(TextTest, MissingFileAndFolder) {
  RoutingTableConfig table;
  EXPECT_EQ(ReadTextProto("/nonexistent/t.prototxt", &table).message(), "/nonexistent/t.prototxt: no such file");
  EXPECT_EQ(ReadTextProto("/nonexistent/t.prototxt", &table).code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadTextProto("/tmp", &table).message(), "/tmp: is a folder, expected a file");
}

TEST(NamesTest, NearestName) {
  EXPECT_EQ(NearestName("kernal_size", {"pad", "kernel_size", "kernel_h"}), "kernel_size");
  EXPECT_EQ(NearestName("completely_else", {"pad", "kernel_size"}), "");
  EXPECT_EQ(NearestName("toop", {"bottom", "top"}), "top");
}

}  // namespace
}  // namespace hp

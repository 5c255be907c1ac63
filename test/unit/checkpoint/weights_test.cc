#include "checkpoint/weights.h"

#include "checkpoint/summed_file.h"
#include "proto/layer_names.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> Count(int64_t n, float first) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class WeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_weights_XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/net.caffemodel";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void WriteFile(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string ReadFile() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void Write(const caffe::NetParameter& net) const { WriteFile(net.SerializeAsString()); }
  /// What is read of a file that has these layers.
  StatusOr<CaffeModel> ModelOf(const std::string& layers) const {
    caffe::NetParameter net;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &net));
    Write(net);
    return ReadCaffeModel(path_);
  }

  std::string folder_, path_;
};

caffe::NetParameter Net() {
  caffe::NetParameter net;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'test' force_backward: true "
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN } }"
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' param { lr_mult: 2 } "
      "        convolution_param { num_output: 3 kernel_size: 5 } }"
      "layer { name: 'relu' type: 'ReLU' bottom: 'conv1' top: 'conv1' }"
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'conv1' top: 'fc' inner_product_param { num_output: 200 } }",
      &net));
  return net;
}

caffe::BlobProto BlobOf(const std::vector<int>& dims, const std::vector<float>& values) {
  caffe::BlobProto blob;
  for (int dim : dims) blob.mutable_shape()->add_dim(dim);
  blob.mutable_data()->Add(values.begin(), values.end());
  return blob;
}

// Protobuf's own parser is the independent reader.
TEST_F(WeightsTest, WritesWhatProtobufReads) {
  const std::vector<float> kernel = Count(3 * 2 * 5 * 5, 1), bias = Count(3, -7), matrix = Count(200 * 300, 0.5f);
  const BlobRefs blobs = {{{"conv1", 0}, {{3, 2, 5, 5}, kernel.data()}},
                          {{"conv1", 1}, {{3}, bias.data()}},
                          {{"fc", 0}, {{200, 300}, matrix.data()}}};
  caffe::NetParameter net = Net();
  net.mutable_layer(1)->add_place("net.prototxt:3");  // says nothing elsewhere
  ASSERT_TRUE(WriteCaffeModel(path_, net, blobs).ok());

  caffe::NetParameter read;
  ASSERT_TRUE(read.ParseFromString(ReadFile()));
  caffe::NetParameter expected = Net();
  *expected.mutable_layer(1)->add_blobs() = BlobOf({3, 2, 5, 5}, kernel);
  *expected.mutable_layer(1)->add_blobs() = BlobOf({3}, bias);
  *expected.mutable_layer(3)->add_blobs() = BlobOf({200, 300}, matrix);
  EXPECT_EQ(read.SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(fs::file_size(path_), expected.ByteSizeLong());
}

TEST_F(WeightsTest, ReadsWhatItWrote) {
  const std::vector<float> kernel = {1, -0.f, std::numeric_limits<float>::denorm_min(), NAN, 1e38f, -3};
  ASSERT_TRUE(WriteCaffeModel(path_, Net(), {{{"conv1", 0}, {{3, 2, 1, 1}, kernel.data()}}}).ok());
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_NE(model->Find("conv1", 0), nullptr);
  EXPECT_EQ(0, memcmp(model->Find("conv1", 0)->data.data(), kernel.data(), sizeof(float) * 6));
  EXPECT_EQ(model->Find("conv1", 1), nullptr);
  EXPECT_EQ(model->Find("fc", 0), nullptr);
}

TEST_F(WeightsTest, LeavesOutBlobsThatTheNetCameWith) {
  caffe::NetParameter net = Net();
  *net.mutable_layer(1)->add_blobs() = BlobOf({1}, {99});
  const float one = 1;
  ASSERT_TRUE(WriteCaffeModel(path_, net, {{{"conv1", 0}, {{1}, &one}}}).ok());
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->Find("conv1", 0)->data, ElementsAre(1));
}

TEST_F(WeightsTest, ReadsOldLayersAndShapes) {
  caffe::NetParameter net;
  caffe::V1LayerParameter* layer = net.add_layers();
  layer->set_name("fc6");
  for (int count : {12, 4}) {
    caffe::BlobProto* blob = layer->add_blobs();
    blob->set_num(1), blob->set_channels(1), blob->set_height(count == 12 ? 4 : 1),
        blob->set_width(count == 12 ? 3 : 4);
    for (int i = 0; i < count; ++i) blob->add_data(static_cast<float>(i));
  }
  Write(net);
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<float> rows(6), bias(2);
  EXPECT_TRUE(model->CopyBlock("fc6", 0, {4, 3}, {2, 4, 0, 3}, rows).ok());
  EXPECT_THAT(rows, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_TRUE(model->CopyBlock("fc6", 1, {4}, {1, 3, 0, 1}, bias).ok());
  EXPECT_THAT(bias, ElementsAre(1, 2));
  std::vector<float> columns(8);
  EXPECT_TRUE(model->CopyBlock("fc6", 0, {4, 3}, {0, 4, 1, 3}, columns).ok());
  EXPECT_THAT(columns, ElementsAre(1, 2, 4, 5, 7, 8, 10, 11));
  EXPECT_TRUE(model->CopyBlock("fc6", 0, {4, 3}, {4, 4, 0, 3}, {}).ok());
}

/// Those of 2013 have name and blobs in a layer inside.
TEST_F(WeightsTest, ReadsTheOldestLayers) {
  caffe::NetParameter net;
  caffe::V0LayerParameter* layer = net.add_layers()->mutable_layer();
  layer->set_name("fc7");
  caffe::BlobProto* blob = layer->add_blobs();
  blob->set_num(1), blob->set_channels(1), blob->set_height(1), blob->set_width(2);
  blob->add_data(3), blob->add_data(4);
  Write(net);
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<float> values(2);
  EXPECT_TRUE(model->CopyBlock("fc7", 0, {2}, {0, 2, 0, 1}, values).ok());
  EXPECT_THAT(values, ElementsAre(3, 4));
}

TEST_F(WeightsTest, LayersOfOneNameAreSeveral) {
  const auto model = ModelOf(
      "layer { name: 'ip' blobs { shape { dim: 2 } data: [1, 2] } } layer { name: 'relu' }"
      "layer { name: 'ip' blobs { shape { dim: 2 } data: [3, 4] } }");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->blobs.size(), 2u);
  EXPECT_THAT(model->blobs.at({"ip", 0}).data, ElementsAre(1, 2));
  EXPECT_THAT(model->blobs.at({"ip#2", 0}).data, ElementsAre(3, 4));
}

// As nets name it.
TEST_F(WeightsTest, ALayerWithoutANameIsCalledAfterItsType) {
  const auto model = ModelOf(
      "layer { type: 'ReLU' } layer { type: 'InnerProduct' blobs { shape { dim: 2 } data: [1, 2] } }"
      "layer { type: 'InnerProduct' blobs { shape { dim: 2 } data: [3, 4] } }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->blobs.at({"InnerProduct", 0}).data, ElementsAre(1, 2));
  EXPECT_THAT(model->blobs.at({"InnerProduct#2", 0}).data, ElementsAre(3, 4));
}

// NVIDIA's: nets have a Scale layer for it.
TEST_F(WeightsTest, ABatchNormWithScaleBiasIsTwoLayers) {
  caffe::NetParameter net;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { name: 'bn' type: 'BatchNorm'"
      "  blobs { shape { dim: 1 } data: 1 } blobs { shape { dim: 1 } data: 2 } blobs { shape { dim: 1 } data: 3 }"
      "  blobs { shape { dim: 1 } data: 4 } blobs { shape { dim: 1 } data: 5 } }",
      &net));
  Write(net);
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->blobs.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    const Blob* const blob = i < 3 ? model->Find("bn", i) : model->Find("bn_scale", i - 3);
    ASSERT_NE(blob, nullptr) << i;
    EXPECT_THAT(blob->data, ElementsAre(static_cast<float>(i + 1)));
  }
  net.mutable_layer(0)->set_type("Mine");
  Write(net);
  EXPECT_NE(ReadCaffeModel(path_)->Find("bn", 4), nullptr);
}

// NameLayersApart's names are not Caffe's, which reads such a file by the names of its own net.
TEST_F(WeightsTest, LayersOfOneNameAreWrittenUnderIt) {
  caffe::NetParameter net;
  for (const char* const name : {"ip", "ip#3", "ip", "ip", "ip#3", "fc#2"}) net.add_layer()->set_name(name);
  const caffe::NetParameter given = net;
  NameLayersApart(&net);
  ASSERT_EQ(net.layer(2).name(), "ip#2");
  ASSERT_EQ(net.layer(3).name(), "ip#4");
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  BlobRefs blobs;
  for (int i = 0; i < net.layer_size(); ++i) blobs[{net.layer(i).name(), 0}] = {{1}, &values[i]};
  ASSERT_TRUE(WriteCaffeModel(path_, net, blobs).ok());
  caffe::NetParameter file;
  std::ifstream in(path_, std::ios::binary);
  ASSERT_TRUE(file.ParseFromIstream(&in));
  for (int i = 0; i < net.layer_size(); ++i) EXPECT_EQ(file.layer(i).name(), given.layer(i).name());
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  for (int i = 0; i < net.layer_size(); ++i) {
    EXPECT_THAT(model->blobs.at({net.layer(i).name(), 0}).data, ElementsAre(static_cast<float>(i)));
  }
}

// Caffe gives the slope of a PReLU with channel_shared no shape: it has no axes.
TEST_F(WeightsTest, OneNumberMayHaveNoShape) {
  caffe::NetParameter net;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString("layer { name: 'prelu' blobs { data: 0.25 } }", &net));
  Write(net);
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(ShapeFits(model->blobs.at({"prelu", 0}), {1}));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString("layer { name: 'prelu' blobs { data: [1, 2] } }", &net));
  Write(net);
  EXPECT_EQ(ReadCaffeModel(path_).status().code(), StatusCode::kDataLoss);
}

// Forks have fields of their own under the numbers of Caffe's, in layers with blobs and without.
TEST_F(WeightsTest, FieldsThatAreNotNeededMayBeAnything) {
  caffe::NetParameter net;
  caffe::LayerParameter* const layer = net.add_layer();
  layer->set_name("ip");
  *layer->add_blobs() = BlobOf({2}, {1, 2});
  std::string bytes = net.SerializeAsString();
  for (const std::string& field : {std::string("\xa2\x09\x02\x08\x01", 5),  // 148, clip_param: without its bounds
                                   std::string("\xca\x08\x02\x0a\x7f", 5),  // 137, embed_param: no message
                                   std::string("\xaa\x09\x00", 3)}) {       // 149, engine
    bytes += "\xa2\x06" + std::string(1, static_cast<char>(field.size())) + field;  // in a layer of its own
  }
  ASSERT_FALSE(caffe::NetParameter().ParseFromString(bytes));
  WriteFile(bytes);
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->blobs.at({"ip", 0}).data, ElementsAre(1, 2));
}

// NVIDIA's Caffe writes values as they lie in memory. Numbers of fields and types are those that OpenCV reads.
TEST_F(WeightsTest, ReadsRawValues) {
  const auto read = [this](char type, const std::string& values) {
    const std::string blob = std::string("\x3a\x03\x0a\x01\x02\x50", 6) + type + "\x62" +
                             std::string(1, static_cast<char>(values.size())) + values;
    const std::string layer = "\x0a\x02ip\x3a" + std::string(1, static_cast<char>(blob.size())) + blob;
    WriteFile("\xa2\x06" + std::string(1, static_cast<char>(layer.size())) + layer);
    return ReadCaffeModel(path_);
  };
  const auto bytes_of = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values), sizeof(values));
  };
  const double doubles[] = {0.5, -3};
  const float floats[] = {0.5, -3};
  const uint16_t halves[] = {0x3800, 0xC200};
  const std::string forms[] = {bytes_of(doubles), bytes_of(floats), bytes_of(halves)};
  for (int type = 0; type < 3; ++type) {
    const auto model = read(static_cast<char>(type), forms[type]);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(model->blobs.at({"ip", 0}).data, ElementsAre(0.5F, -3)) << type;
  }
  EXPECT_THAT(read(3, "12345678").status().message(),
              HasSubstr("layer \"ip\" blob 0: raw_data of type INT; expected DOUBLE, FLOAT or FLOAT16"));
  EXPECT_THAT(read(9, "1234").status().message(), HasSubstr("raw_data without a raw_data_type that is known"));
  EXPECT_THAT(read(1, "12345").status().message(), HasSubstr("raw_data has 5 bytes; expected a multiple of 4"));
  EXPECT_THAT(read(1, "1234").status().message(), HasSubstr("blob has shape \"2\", but 1 values"));
}

TEST_F(WeightsTest, ReadsDoubles) {
  caffe::NetParameter net;
  caffe::LayerParameter* layer = net.add_layer();
  layer->set_name("ip");
  caffe::BlobProto* blob = layer->add_blobs();
  blob->mutable_shape()->add_dim(2);
  blob->add_double_data(0.5);
  blob->add_double_data(-4);
  Write(net);
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->Find("ip", 0)->data, ElementsAre(0.5f, -4));
}

TEST(ShapeFits, OldShapesMayHaveOnesInFrontAndNewOnesNothing) {
  const Blob legacy = {{1, 1, 4, 3}, true, {}};
  EXPECT_TRUE(ShapeFits(legacy, {4, 3}));
  EXPECT_TRUE(ShapeFits(legacy, {1, 1, 4, 3}));
  EXPECT_FALSE(ShapeFits(legacy, {3, 4}));
  EXPECT_FALSE(ShapeFits(legacy, {12}));
  EXPECT_FALSE(ShapeFits({{4, 3, 1, 1}, true, {}}, {4, 3}));
  EXPECT_TRUE(ShapeFits({{4, 3}, false, {}}, {4, 3}));
  EXPECT_FALSE(ShapeFits({{1, 1, 4, 3}, false, {}}, {4, 3}));
}

TEST_F(WeightsTest, AnotherShapeIsNamed) {
  const std::vector<float> values = Count(12, 0);
  ASSERT_TRUE(WriteCaffeModel(path_, Net(), {{{"fc", 0}, {{4, 3}, values.data()}}}).ok());
  const auto model = ReadCaffeModel(path_);
  ASSERT_TRUE(model.ok());
  std::vector<float> out(12);
  Status status = model->CopyBlock("fc", 0, {3, 4}, {0, 3, 0, 4}, out);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), path_ + ": layer \"fc\" blob 0 has shape \"4 3\"; expected \"3 4\"");
  status = model->CopyBlock("fc", 1, {4}, {0, 4, 0, 1}, out);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no blob 1 of layer \"fc\""));
}

TEST_F(WeightsTest, EveryTruncationIsDataLoss) {
  const std::vector<float> kernel = Count(6, 1);
  ASSERT_TRUE(WriteCaffeModel(path_, Net(), {{{"conv1", 0}, {{3, 2}, kernel.data()}}}).ok());
  const std::string whole = ReadFile();
  // Cut there, what is left is a shorter model: of layers that have no parameters, or with those of conv1.
  const size_t data_end = whole.find("conv1") - 5, conv1_end = whole.find("relu") - 5;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    WriteFile(whole.substr(0, bytes));
    const auto model = ReadCaffeModel(path_);
    if ((bytes == data_end || bytes >= conv1_end) && model.ok()) continue;
    ASSERT_EQ(model.status().code(), StatusCode::kDataLoss) << bytes << " bytes: " << model.status();
    EXPECT_THAT(model.status().message(), HasSubstr(path_));
  }
}

TEST_F(WeightsTest, RubbishIsDataLossAndNeverACrash) {
  uint32_t word = 12345;
  for (int file = 0; file < 300; ++file) {
    std::string bytes(1 + file, '\0');
    for (char& byte : bytes) byte = static_cast<char>((word = word * 1664525 + 1013904223) >> 24);
    WriteFile(bytes);
    EXPECT_EQ(ReadCaffeModel(path_).status().code(), StatusCode::kDataLoss);
  }
  WriteFile("name: \"CIFAR10_quick\"\nlayer {\n  name: \"cifar\"\n  type: \"Data\"\n}\n");
  EXPECT_EQ(ReadCaffeModel(path_).status().code(), StatusCode::kDataLoss);
}

TEST_F(WeightsTest, FlippedBytesNeverCrash) {
  const std::vector<float> kernel = Count(6, 1);
  ASSERT_TRUE(WriteCaffeModel(path_, Net(), {{{"conv1", 0}, {{3, 2}, kernel.data()}}}).ok());
  const std::string whole = ReadFile();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (char flip : {'\x01', '\x80', '\xFF'}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      WriteFile(bytes);
      const auto model = ReadCaffeModel(path_);
      if (!model.ok()) {
        EXPECT_EQ(model.status().code(), StatusCode::kDataLoss);
      }
    }
  }
}

TEST_F(WeightsTest, AShapeThatOverflowsIsDataLoss) {
  caffe::NetParameter net;
  caffe::LayerParameter* layer = net.add_layer();
  layer->set_name("ip");
  caffe::BlobProto* blob = layer->add_blobs();
  for (int64_t dim : {int64_t{1} << 62, int64_t{4}, int64_t{2}}) blob->mutable_shape()->add_dim(dim);
  for (int i = 0; i < 8; ++i) blob->add_data(1);
  Write(net);
  const Status status = ReadCaffeModel(path_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("layer \"ip\" blob 0"));
}

TEST_F(WeightsTest, MissingAndEmptyFilesAreNamed) {
  EXPECT_EQ(ReadCaffeModel(path_).status().code(), StatusCode::kNotFound);
  WriteFile("");
  EXPECT_EQ(ReadCaffeModel(path_).status().message(), path_ + ": the file is empty");
  EXPECT_EQ(ReadCaffeModel(folder_).status().code(), StatusCode::kInvalidArgument);
  caffe::NetParameter net;
  net.set_name("none");
  Write(net);
  EXPECT_THAT(ReadCaffeModel(path_).status().message(), HasSubstr("contains no layer"));
  Write(Net());
  EXPECT_TRUE(ReadCaffeModel(path_).ok()) << "a net that learns nothing";
}

TEST_F(WeightsTest, AnotherProgramsWeightsAreToBeConverted) {
  const Status status = ReadCaffeModel("/w/net.safetensors").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("hpconvert weights /w/net.safetensors /w/net.caffemodel --net="));
}

TEST_F(WeightsTest, ProtobufsLimitIsNamedOnBothWays) {
  // A sparse file: 3 GB that take no room.
  WriteFile("x");
  fs::resize_file(path_, 3'000'000'000);
  const Status read = ReadCaffeModel(path_).status();
  EXPECT_EQ(read.code(), StatusCode::kDataLoss);
  EXPECT_THAT(read.message(), HasSubstr("the file has 3.00 GB; protobuf"));
  fs::remove(path_);
  const float* nothing = nullptr;
  const Status written =
      WriteCaffeModel(path_, Net(), {{{"fc", 0}, {{1'000'000, 512}, nothing}}, {{"fc", 1}, {{100'000'000}, nothing}}});
  EXPECT_EQ(written.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(written.message(), HasSubstr("2.45 GB of parameters"));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(WeightsTest, AFailedWriteLeavesTheOldFile) {
  const float one = 1, two = 2;
  ASSERT_TRUE(WriteCaffeModel(path_, Net(), {{{"fc", 0}, {{1}, &one}}}).ok());
  {
    auto pending = SummedFile::Create(path_);
    ASSERT_TRUE(pending.ok());
    EXPECT_TRUE(fs::exists(path_ + ".tmp"));
  }
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));
  EXPECT_EQ(WriteCaffeModel("/dev/null/x", Net(), {{{"fc", 0}, {{1}, &two}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ReadCaffeModel(path_)->Find("fc", 0)->data, ElementsAre(1));
}

TEST_F(WeightsTest, ChecksumsAreThoseOfTheFile) {
  auto pending = SummedFile::Create(path_);
  ASSERT_TRUE(pending.ok());
  void* block = nullptr;
  int size = 0;
  ASSERT_TRUE((*pending)->stream()->Next(&block, &size));
  memcpy(block, "hpnode", 6);
  (*pending)->stream()->BackUp(size - 6);
  ASSERT_TRUE((*pending)->Sync().ok());
  ASSERT_TRUE((*pending)->Commit().ok());
  EXPECT_EQ((*pending)->bytes(), 6);
  EXPECT_EQ((*pending)->xxh64(), 0xafe8107358c6afa5u);  // libxxhash of "hpnode" by itself
  const auto sum = SumFile(path_);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(sum->bytes, 6);
  EXPECT_EQ(sum->xxh64, (*pending)->xxh64());
}

}  // namespace
}  // namespace hp

#include "checkpoint/upgrade_file.h"

#include "checkpoint/weights.h"
#include "proto/text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class UpgradeFileTest : public testing::Test {
 protected:
  UpgradeFileTest() {
    char name[] = "/tmp/hp_upgrade_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~UpgradeFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + name, std::ios::binary) << bytes;
    return folder_ + name;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string FaultOf(const std::string& bytes) const {
    const Status status = UpgradeFile(Write("/in", bytes), folder_ + "/out").status();
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
    return status.message();
  }

  std::string folder_;
};

TEST_F(UpgradeFileTest, ANetOf2014) {
  const std::string old = Write("/in", "# Mine.\nlayers { name: 'a' type: RELU bottom: 'x' top: 'a' blobs_lr: 2 }");
  const auto done = UpgradeFile(old, folder_ + "/out");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(*done, folder_ + "/out: a net, which had \"layers\" of the form of 2014");
  EXPECT_EQ(Read("/out"),
            "layer {\n  name: \"a\"\n  type: \"ReLU\"\n  bottom: \"x\"\n  top: \"a\"\n  param {\n    lr_mult: 2\n  "
            "}\n}\n");
  const auto again = UpgradeFile(folder_ + "/out", folder_ + "/out");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(*again, HasSubstr("a net, which was in today's form"));
  EXPECT_EQ(UpgradeFile(old, folder_ + "/out2").status().code(), StatusCode::kOk);
  EXPECT_EQ(Read("/out"), Read("/out2"));
}

TEST_F(UpgradeFileTest, ASolverWithItsNet) {
  const std::string old = Write("/in",
                                "base_lr: 0.1 solver_type: ADAM rampup_interval: 3\n"
                                "net_param { layers { layer { name: 'a' type: 'relu' } bottom: 'x' top: 'a' } }");
  const auto done = UpgradeFile(old, folder_ + "/out");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(*done, HasSubstr("a solver, which had solver_type instead of type; rampup_interval"));
  EXPECT_THAT(*done, HasSubstr("\"layers\" of the form of 2013"));
  caffe::SolverParameter solver;
  ASSERT_TRUE(ReadTextProto(folder_ + "/out", &solver).ok());
  EXPECT_EQ(solver.type(), "Adam");
  EXPECT_EQ(solver.base_lr(), 0.1f);
  EXPECT_EQ(solver.warmup_iter(), 3);
  EXPECT_FALSE(solver.has_solver_type() || solver.has_rampup_interval() || solver.has_net());
  EXPECT_FALSE(solver.has_snapshot_prefix()) << "what the file does not say stays unsaid";
  EXPECT_EQ(solver.net_param().layer(0).type(), "ReLU");
}

/// Caffe can parse what is written, and what is not there any more is said.
TEST_F(UpgradeFileTest, EnginesOfIntelsAreLeftOut) {
  const auto done = UpgradeFile(Write("/in",
                                      "engine: 'MKLDNN'\nnet_param { layer { name: 'a' type: 'Convolution' "
                                      "convolution_param { engine: MKL2017 } } }"),
                                folder_ + "/out");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(*done,
              HasSubstr("a solver, which had an engine of a fork of Caffe, which is left out; engines of a fork"));
  EXPECT_EQ(Read("/out").find("engine"), std::string::npos);
}

TEST_F(UpgradeFileTest, WeightsKeepTheirBits) {
  caffe::NetParameter old;
  caffe::V1LayerParameter* const layer = old.add_layers();
  layer->set_name("ip");
  layer->set_type(caffe::V1LayerParameter::INNER_PRODUCT);
  caffe::BlobProto* const blob = layer->add_blobs();
  blob->set_num(1), blob->set_channels(1), blob->set_height(1), blob->set_width(2);
  blob->add_data(0.1f), blob->add_data(-3e-41f);  // one of them subnormal
  const auto done = UpgradeFile(Write("/in", old.SerializeAsString()), folder_ + "/out");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(*done, HasSubstr("weights, which had \"layers\" of the form of 2014"));
  caffe::NetParameter net;
  ASSERT_TRUE(net.ParseFromString(Read("/out")));
  EXPECT_EQ(net.layers_size(), 0);
  ASSERT_EQ(net.layer_size(), 1);
  EXPECT_EQ(net.layer(0).type(), "InnerProduct");
  EXPECT_EQ(net.layer(0).blobs(0).SerializeAsString(), old.layers(0).blobs(0).SerializeAsString());
  const auto model = ReadCaffeModel(folder_ + "/out");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->Find("ip", 0)->data, ElementsAre(0.1f, -3e-41f));
}

// Its factors and biases stand behind the statistics.
TEST_F(UpgradeFileTest, WeightsOfABatchNormOfNvidiasAreOfTwoLayers) {
  caffe::NetParameter old;
  caffe::LayerParameter* const layer = old.add_layer();
  layer->set_name("n");
  layer->set_type("BatchNorm");
  // NVIDIA's scale_bias has another number than ours, so the blobs tell.
  for (int i = 0; i < 5; ++i) layer->add_blobs()->add_data(static_cast<float>(i));
  ASSERT_TRUE(UpgradeFile(Write("/in", old.SerializeAsString()), folder_ + "/out").ok());
  caffe::NetParameter net;
  ASSERT_TRUE(net.ParseFromString(Read("/out")));
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(0).blobs_size(), 3);
  EXPECT_EQ(net.layer(1).name(), "n_scale");
  ASSERT_EQ(net.layer(1).blobs_size(), 2);
  EXPECT_EQ(net.layer(1).blobs(0).data(0), 3);
  EXPECT_EQ(net.layer(1).blobs(1).data(0), 4);
}

// Caffe does not know of them.
TEST_F(UpgradeFileTest, RawValuesBecomeFloats) {
  caffe::NetParameter old;
  old.add_layer()->set_name("ip");
  caffe::BlobProto* const blob = old.mutable_layer(0)->add_blobs();
  blob->mutable_shape()->add_dim(2);
  blob->set_raw_data_type(caffe::BlobProto::FLOAT16);
  blob->set_raw_data(std::string("\x00\x38\x00\xC2", 4));
  const auto done = UpgradeFile(Write("/in", old.SerializeAsString()), folder_ + "/floats");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(*done, HasSubstr("weights, which had raw values of NVIDIA's Caffe"));
  caffe::NetParameter net;
  ASSERT_TRUE(net.ParseFromString(Read("/floats")));
  EXPECT_THAT(net.layer(0).blobs(0).data(), ElementsAre(0.5F, -3));
  EXPECT_FALSE(net.layer(0).blobs(0).has_raw_data() || net.layer(0).blobs(0).has_raw_data_type());
  blob->set_raw_data("123");
  EXPECT_THAT(FaultOf(old.SerializeAsString()),
              HasSubstr("/in: layer \"ip\" blob 0: raw_data has 3 bytes; expected a multiple of 2"));
}

TEST_F(UpgradeFileTest, FaultsNameTheirPlace) {
  const std::string in = folder_ + "/in";
  EXPECT_THAT(FaultOf("layers { name: 'a' type: RELU }\nlayers { name: 'b' }"), HasSubstr(in + ":2: layer \"b\": an"));
  EXPECT_THAT(FaultOf("base_lr: 1\ntest_net_param { }\ntest_net_param {\n layers { name: 'a' type: RELU }\n\n layers "
                      "{ name: 'a' }\n}"),
              HasSubstr(in + ":6: layer \"a\": an"));
  EXPECT_THAT(FaultOf("base_lr: 1\ntype: 'SGD'\nsolver_type: ADAM"), HasSubstr(in + ":3: solver_type: ADAM beside"));
  EXPECT_THAT(FaultOf("layer { name: 'a' }\nlayer { nmae: 'b' }"), HasSubstr(in + ":2:"));
  EXPECT_THAT(FaultOf("base_lr: 1\nlr_polic: 'fixed'"), HasSubstr(in + ":2:"));
  EXPECT_THAT(FaultOf(""), HasSubstr(in + ": no layer; expected a net or a solver"));
  EXPECT_THAT(FaultOf(std::string("\x08\x05\x12\x03net", 7)), HasSubstr(in + ": not a .caffemodel"));
  EXPECT_THAT(FaultOf(std::string("\x0a\xff\x01", 3)), HasSubstr(in));
  EXPECT_EQ(UpgradeFile(folder_ + "/missing", in).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(UpgradeFile(folder_ + "/a.caffemodel.h5", in).status().message(), HasSubstr("have no older form"));
}

}  // namespace
}  // namespace hp

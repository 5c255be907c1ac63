// Layer types that only this test knows train under hybrid tables as in one process. Whatever learns, divides or
// carries gradients by the name of its type, instead of asking the traits, fails here.
#include "layers/filler.h"
#include "layers/op_factories.h"
#include "layers/traits/layer_types.h"
#include "test/support/local_cluster.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hp::test {
namespace {

constexpr double kTolerance = 1e-4;
constexpr uint64_t kSeed = 7;
constexpr int kChannels = 6, kHidden = 60;

/// y = (1 + g[c]) x, g learnt from zero: a layer that keeps all channels together, with a parameter.
class GainOp : public Op {
 public:
  explicit GainOp(const TensorDesc& in) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override { Scale(args.in[0], args.params[0].data, args.out[0]); }
  void BackwardInput(const OpArgs& args) override { Scale(args.d_out[0], args.params[0].data, args.d_in[0]); }
  void BackwardParams(const OpArgs& args) override {
    const Tensor& in = args.in[0];
    float* const gradient = args.d_params[0];
    for (int64_t c = 0; c < in.shape()[1]; ++c) {
      double sum = args.accumulate ? gradient[c] : 0;
      for (int64_t n = 0; n < in.shape()[0]; ++n) {
        for (int64_t s = 0; s < in.shape().count(2); ++s) {
          const int64_t i = ElementOffset(in.desc, n, c, s);
          sum += static_cast<double>(in.floats()[i]) * args.d_out[0].floats()[i];
        }
      }
      gradient[c] = static_cast<float>(sum);
    }
  }
  bool backward_reads_output() const override { return false; }

 private:
  static void Scale(const Tensor& from, const float* gain, const Tensor& to) {
    for (int64_t n = 0; n < from.shape()[0]; ++n) {
      for (int64_t c = 0; c < from.shape()[1]; ++c) {
        for (int64_t s = 0; s < from.shape().count(2); ++s) {
          const int64_t i = ElementOffset(from.desc, n, c, s);
          to.floats()[i] = (1 + gain[c]) * from.floats()[i];
        }
      }
    }
  }
};

StatusOr<std::unique_ptr<Op>> MakeGainOp(const LayerTraits&, const OpContext&, const std::vector<TensorDesc>& in) {
  return std::unique_ptr<Op>(std::make_unique<GainOp>(in[0]));
}

/// A product without bias, divided over shards by its outputs: what the library does for InnerProduct, under a name
/// that it does not know.
StatusOr<std::unique_ptr<Op>> MakeProjectionOp(const LayerTraits&, const OpContext& context,
                                               const std::vector<TensorDesc>& in) {
  InnerProductDesc desc;
  desc.num_output = context.channel_end - context.channel_begin;
  desc.bias = false;
  desc.input_gradient = context.input_gradient;
  return context.backend->InnerProduct(desc, in);
}

int64_t ProjectionOutputs(const caffe::LayerParameter& param) { return param.inner_product_param().num_output(); }

const LayerTypes& Types() {
  static const LayerType kGain = {
      .name = "Gain",
      .output_shapes = [](const caffe::LayerParameter&,
                          const std::vector<Shape>& in) { return StatusOr<std::vector<Shape>>(in); },
      .most_blobs = 1,
      .params =
          [](const caffe::LayerParameter&, const std::vector<Shape>& in) {
            return std::vector<ParamSpec>{{.name = "", .shape = Shape{in[0][1]}}};
          }};
  static const LayerType kProjection = {
      .name = "Projection",
      .fields = {"inner_product_param"},
      .channel_use = ChannelUse::kSplitOutput,
      .output_shapes =
          [](const caffe::LayerParameter& param, const std::vector<Shape>& in) {
            return StatusOr<std::vector<Shape>>(std::vector<Shape>{{in[0][0], ProjectionOutputs(param)}});
          },
      .most_blobs = 1,
      .params =
          [](const caffe::LayerParameter& param, const std::vector<Shape>& in) {
            return std::vector<ParamSpec>{{.name = "",
                                           .shape = Shape{ProjectionOutputs(param), in[0].count(1)},
                                           .filler = &param.inner_product_param().weight_filler()}};
          },
      .split_outputs = ProjectionOutputs};
  static const LayerTypes kTypes = LayerTypes::BuiltIn().With(kGain).With(kProjection);
  return kTypes;
}

const OpFactories& Factories() {
  static const OpFactories kFactories =
      OpFactories::BuiltIn().With("Gain", MakeGainOp).With("Projection", MakeProjectionOp);
  return kFactories;
}

/// conv1 is frozen: below the boundary, only the gain can ask for gradients.
std::string Net(const std::string& folder) {
  return "name: 'made up'\n"
         "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" +
         folder +
         "/train' batch_size: 11 } transform_param { scale: 0.0078125 mean_value: 120 } }\n"
         "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' param { lr_mult: 0 } param { lr_mult: "
         "0 }"
         "  convolution_param { num_output: " +
         std::to_string(kChannels) +
         " kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'gain' type: 'Gain' bottom: 'conv1' top: 'gain' param { lr_mult: 3 } }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'gain' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } "
         "}\n"
         "layer { name: 'hidden' type: 'Projection' bottom: 'pool1' top: 'hidden'"
         "  inner_product_param { num_output: " +
         std::to_string(kHidden) +
         " weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'relu' type: 'ReLU' bottom: 'hidden' top: 'hidden' relu_param { negative_slope: 0.1 } }\n"
         "layer { name: 'scores' type: 'Projection' bottom: 'hidden' top: 'scores'"
         "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'loss' }\n";
}

class MadeUpLayers : public testing::Test {
 protected:
  MadeUpLayers() {
    WriteRandomImages(folder_ / "train", 90, 3, 12, 5, 1);
    WriteFile(folder_ / "net.prototxt", Net(folder_.path()));
    WriteFile(solver_, "net: '" + folder_ / "net.prototxt" + "'\nbase_lr: 0.02 momentum: 0.9 lr_policy: 'fixed' " +
                           "max_iter: 30 random_seed: " + std::to_string(kSeed) + " snapshot_after_train: false\n");
  }
  /// The part of a table that is the same for all: who makes what of the layers.
  static ClusterSpec Spec(int conv, std::vector<int> fc, const std::string& first_of_fc = "hidden",
                          const std::string& last_of_conv = "pool1") {
    ClusterSpec spec;
    spec.conv = conv;
    spec.fc = std::move(fc);
    spec.fc_starts = {first_of_fc};
    spec.ends = {last_of_conv};
    spec.layer_types = &Types();
    spec.op_factories = &Factories();
    return spec;
  }

  TempFolder folder_;
  const std::string solver_ = folder_ / "solver.prototxt";
};

TEST_F(MadeUpLayers, TrainUnderHybridTablesAsInOneProcess) {
  const ClusterResult reference = TrainCluster(Spec(1, {}), solver_);
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  EXPECT_LT(reference.losses.at(29), reference.losses.at(0)) << "nothing was learnt";
  ClusterSpec lead = Spec(1, {2});
  lead.splits = {{"hidden", SplitConfig::NONE}};
  // 6 shards: one more than there are scores.
  for (ClusterSpec spec : {Spec(2, {2}), Spec(3, {1}), Spec(1, {3}), Spec(2, {}), Spec(1, {6}), lead}) {
    for (int micro : {1, 2}) {
      spec.micro_batches = micro;
      SCOPED_TRACE(testing::Message() << "conv " << spec.conv << " fc " << testing::PrintToString(spec.fc) << " micro "
                                      << micro);
      const ClusterResult result = TrainCluster(spec, solver_);
      ASSERT_TRUE(result.status.ok()) << result.status;
      ASSERT_EQ(result.params.size(), reference.params.size());
      for (const auto& [name, values] : reference.params) {
        EXPECT_LT(RelativeDifference(result.params.at(name), values), kTolerance) << name;
      }
    }
  }
}

TEST_F(MadeUpLayers, TheirParametersMove) {
  const ClusterResult result = TrainCluster(Spec(2, {2}), solver_);
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (float gain : result.params.at("gain.0")) EXPECT_NE(gain, 0) << "a channel's gain is where it began";
  caffe::FillerParameter xavier;
  xavier.set_type("xavier");
  const std::vector<float>& hidden = result.params.at("hidden.0");
  std::vector<float> begin(hidden.size());
  const int64_t inputs = static_cast<int64_t>(hidden.size()) / kHidden;
  const Shape whole{kHidden, inputs};
  FillParam(&xavier, whole, Block::Whole(whole), kSeed, "hidden.0", begin.data());
  for (int row = 0; row < kHidden; ++row) {
    const auto of_row = [&](const std::vector<float>& values) {
      return std::span(values).subspan(row * inputs, inputs);
    };
    EXPECT_FALSE(std::ranges::equal(of_row(hidden), of_row(begin)))
        << "output " << row << " has the weights that it began with";
  }
}

TEST_F(MadeUpLayers, ALayerWithParametersThatShardsCannotDivideIsRefused) {
  const ClusterResult result = TrainCluster(Spec(1, {2}, "gain", "conv1"), solver_);
  EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status.message(), testing::HasSubstr("layer \"gain\" (Gain) can't be split over the 2 shards"));
}

TEST_F(MadeUpLayers, AreSplitByInputsOnlyIfTheirTypeSaysSo) {
  ClusterSpec spec = Spec(1, {2});
  spec.splits = {{"hidden", SplitConfig::INPUTS}};
  EXPECT_THAT(TrainCluster(spec, solver_).status.message(),
              testing::HasSubstr("layer \"hidden\" (Projection) can't be split by INPUTS; expected OUTPUTS or NONE"));
}

TEST_F(MadeUpLayers, WithoutTheirRowsTheyAreUnknown) {
  ClusterSpec spec = Spec(1, {});
  spec.layer_types = &LayerTypes::BuiltIn();
  EXPECT_THAT(TrainCluster(spec, solver_).status.message(),
              testing::HasSubstr("layer \"gain\": type Gain is no layer of Caffe's"));
}

}  // namespace
}  // namespace hp::test

// What ops do for their neighbours, by ops that only say what they would.
#include "layers/op_factories.h"
#include "test/unit/net/net_test_util.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

namespace hp::test {
namespace {

/// Of a convolution: it computes its groups one by one. Of a pooling: it reads and writes up to two groups.
class GroupedOp final : public Op {
 public:
  GroupedOp(const LayerTraits& layer, const std::vector<TensorDesc>& outputs)
      : pools_(layer.param().type() == "Pooling") {
    outputs_ = outputs;
    if (!pools_) own_ = layer.param().convolution_param().group();
  }
  void Forward(const OpArgs&) override {}
  void BackwardInput(const OpArgs&) override {}
  bool TakeReluBehind() override { return !pools_; }
  bool TakeReluGradientBehind() override { return !pools_; }
  bool reads_raw_images() const override { return !pools_; }
  bool backward_reads_output() const override { return false; }
  int64_t groups() const override { return own_; }
  bool ReadGroups(int64_t groups) override { return Take(groups, &read_); }
  bool WriteGroups(int64_t groups) override { return Take(groups, &written_); }

  /// Of input and output.
  std::pair<int64_t, int64_t> agreed() const { return {read_, written_}; }

 private:
  bool Take(int64_t groups, int64_t* to) const {
    const bool may = groups == 1 || (pools_ ? groups == 2 : groups == own_);
    if (may) *to = groups;
    return may;
  }

  const bool pools_;
  int64_t own_ = 1, read_ = 1, written_ = 1;
};

StatusOr<std::unique_ptr<Op>> MakeGroupedOp(const LayerTraits& layer, const OpContext& context,
                                            const std::vector<TensorDesc>& in) {
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<Op> op, OpFactories::BuiltIn().Create(layer, context, in));
  return std::unique_ptr<Op>(std::make_unique<GroupedOp>(layer, op->outputs()));
}

std::string Conv(const std::string& name, const std::string& bottom, int groups) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: 12 kernel_size: 3 pad: 1 group: " + std::to_string(groups) + " } }\n";
}
std::string Pool(const std::string& name, const std::string& bottom) {
  return "layer { name: '" + name + "' type: 'Pooling' bottom: '" + bottom + "' top: '" + name +
         "' pooling_param { kernel_size: 3 stride: 1 } }\n";
}
std::string Relu(const std::string& bottom, const std::string& top, const std::string& slope = "0") {
  return "layer { name: 'relu " + bottom + "' type: 'ReLU' bottom: '" + bottom + "' top: '" + top +
         "' relu_param { negative_slope: " + slope + " } }\n";
}

/// A net that begins with `layers` and ends in `last`.
std::unique_ptr<NodeNet> MakeNet(const PlacedNet& net) {
  const OpFactories ops = OpFactories::BuiltIn().With("Convolution", MakeGroupedOp).With("Pooling", MakeGroupedOp);
  return net.MakeNet(0, 0, 4, 0, ops);
}
PlacedNet Placed(const std::string& layers, const std::string& last, caffe::Phase phase = caffe::TRAIN) {
  const std::string net =
      "name: 'n'\n"
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n" +
      layers + "layer { name: 'ip' type: 'InnerProduct' bottom: '" + last +
      "' top: 'ip' inner_product_param { num_output: 5 } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
  const int count = static_cast<int>(std::count(net.begin(), net.end(), '\n')) - 1;
  return PlacedNet(net, Layout(1, {}, {}, count), phase);
}

/// What ops of `names` have agreed with their neighbours on: "READ-WRITTEN ..." groups, in a net that ends in `last`.
std::string Agreed(const std::string& layers, const std::string& last, const std::vector<std::string>& names,
                   caffe::Phase phase = caffe::TRAIN) {
  const PlacedNet placed = Placed(layers, last, phase);
  const auto node = MakeNet(placed);
  std::string agreed;
  for (const std::string& name : names) {
    const auto step =
        std::find_if(node->steps().begin(), node->steps().end(), [&](const NetStep& one) { return one.name == name; });
    const auto [read, written] = dynamic_cast<const GroupedOp&>(*step->op).agreed();
    agreed += (agreed.empty() ? "" : " ") + std::to_string(read) + "-" + std::to_string(written);
  }
  return agreed;
}

TEST(Neighbours, AgreeOnGroups) {
  const std::string net = Conv("a", "data", 1) + Pool("pool", "a") + Conv("b", "pool", 2) + Relu("b", "b") +
                          Conv("c", "b", 2) + Relu("c", "c") + Pool("last", "c");
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    EXPECT_EQ(Agreed(net, "last", {"a", "pool", "b", "c", "last"}, phase), "1-1 1-2 2-2 2-2 2-1");
  }
}

TEST(Neighbours, LeaveTensorsAsTheyAreWhereOneCannot) {
  // The writer computes none, or other groups; the reader does.
  EXPECT_EQ(Agreed(Conv("a", "data", 1) + Conv("b", "a", 2), "b", {"a", "b"}), "1-1 1-1");
  EXPECT_EQ(Agreed(Conv("a", "data", 3) + Conv("b", "a", 2), "b", {"a", "b"}), "1-1 1-1");
  // A pooling reads no three groups: what was asked of the writer before is taken back.
  EXPECT_EQ(Agreed(Conv("a", "data", 3) + Pool("b", "a"), "b", {"a", "b"}), "1-1 1-1");
}

TEST(Neighbours, LeaveTensorsAsTheyAreThatOthersRead) {
  const std::string two = Conv("first", "data", 1) + Conv("a", "first", 2) + Conv("b", "a", 2) + Conv("c", "a", 2) +
                          "layer { name: 'sum' type: 'Eltwise' bottom: 'b' bottom: 'c' top: 'sum' }\n";
  EXPECT_EQ(Agreed(two, "sum", {"a", "b", "c"}), "1-1 1-1 1-1");
  EXPECT_EQ(Agreed(two, "sum", {"a", "b", "c"}, caffe::TEST), "1-1 1-1 1-1");
  // A ReLU that reads and writes itself: of a slope, and not in place.
  const std::string slope =
      Conv("first", "data", 1) + Conv("a", "first", 2) + Relu("a", "a", "0.1") + Conv("b", "a", 2);
  EXPECT_EQ(Agreed(slope, "b", {"a", "b"}), "1-1 1-1");
  const std::string apart = Conv("first", "data", 1) + Conv("a", "first", 2) + Relu("a", "r") + Conv("b", "r", 2);
  EXPECT_EQ(Agreed(apart, "b", {"a", "b"}), "1-1 1-1");
  // Nobody reads the end but the product, which knows nothing of groups.
  EXPECT_EQ(Agreed(Conv("first", "data", 1) + Conv("a", "first", 2), "a", {"a"}), "1-1");
}

TEST(Neighbours, LeaveRawImagesToTheirOnlyReader) {
  const auto leaves = [](const std::string& layers, const std::string& last) {
    const PlacedNet placed = Placed(layers, last);
    return MakeNet(placed)->reads_raw_images();
  };
  EXPECT_TRUE(leaves(Conv("a", "data", 1), "a"));
  EXPECT_FALSE(leaves(Pool("a", "data"), "a")) << "which needs floats";
  const auto power = [](const std::string& top) {
    return "layer { name: 'power' type: 'Power' bottom: 'data' top: '" + top + "' power_param { scale: 2 } }\n";
  };
  const auto view = [](const std::string& dims) {
    return "layer { name: 'view' type: 'Reshape' bottom: 'data' top: 'view' reshape_param { shape { " + dims +
           " } } }\n";
  };
  EXPECT_FALSE(leaves(power("data") + Conv("a", "data", 1), "a")) << "a layer works in place on them";
  EXPECT_FALSE(leaves(power("twice") + Conv("a", "twice", 1), "a"));
  EXPECT_FALSE(leaves(view("dim: 0 dim: 3 dim: 4 dim: 16") + Conv("a", "view", 1), "a")) << "of another shape";
  EXPECT_FALSE(leaves(Conv("a", "data", 1) + Conv("b", "data", 1) +
                          "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }\n",
                      "sum"));
}

}  // namespace
}  // namespace hp::test

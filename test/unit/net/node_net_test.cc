#include "test/unit/net/net_test_util.h"

#include <algorithm>
#include <map>
#include <regex>
#include <tuple>

namespace hp::test {
namespace {

constexpr int64_t kRows = 4;

struct PortCount {
  int out = 0, in = 0, gradients_out = 0, gradients_in = 0;
  bool operator==(const PortCount&) const = default;
};
std::ostream& operator<<(std::ostream& out, const PortCount& count) {
  return out << count.out << " out " << count.in << " in " << count.gradients_out << " gradients out "
             << count.gradients_in << " gradients in";
}

PortCount Count(const NodeNet& net) {
  PortCount count;
  for (const PortPlan& port : net.plan().ports()) {
    ++(port.gradient ? (port.landing ? count.gradients_in : count.gradients_out)
                     : (port.landing ? count.in : count.out));
  }
  return count;
}

size_t Bytes(const NodeNet& net, int port) {
  NetRun run;
  std::vector<std::byte*> matrices(net.update_row_bytes().size(), nullptr);
  run.update_matrices = matrices;
  return net.BufferSpan(net.port_buffer(port), run).size();
}

bool Reads(const NodeNet& net, const NetStep& step, int buffer) {
  return std::any_of(step.in.begin(), step.in.end(), [&](int tensor) { return net.tensors()[tensor].value == buffer; });
}

/// Whether what lands at `port` lies in the very memory that an op reads: a layer's input, or the gradient that a step
/// takes from above. Slices are joined only for layers that need whole rows, which an InnerProduct does not.
bool IsReadInPlace(const NodeNet& net, int port) {
  const auto& steps = net.steps();
  const int buffer = net.port_buffer(port);
  const bool gradient = net.plan().ports()[port].gradient;
  return std::any_of(steps.begin(), steps.end(), [&](const NetStep& step) {
    if (gradient) return std::count(step.out_gradient.begin(), step.out_gradient.end(), buffer) > 0;
    if (!Reads(net, step, buffer)) return false;
    if (step.layer != nullptr) return true;
    return std::none_of(steps.begin(), steps.end(), [&](const NetStep& reader) {
      return reader.layer != nullptr && reader.layer->type() == "InnerProduct" &&
             Reads(net, reader, net.tensors()[step.out[0]].value);
    });
  });
}

/// Every port has its other end: the same channel, as many bytes. What arrives is read where it lands.
void ExpectPortsMatch(const PlacedNet& net) {
  const auto& stages = net.placement->layout().stages;
  using Ends = std::tuple<uint32_t, std::vector<Rank>, std::vector<Rank>>;  // channel, from, to
  std::map<Ends, size_t> leaving, landing;                                  // bytes
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage) {
    const int parts = stages[stage].data_parallel ? 1 : stages[stage].parts();
    for (int part = 0; part < parts; ++part) {
      const auto node = net.MakeNet(stage, part, kRows);
      const auto self =
          stages[stage].data_parallel ? stages[stage].ranks : std::vector<Rank>{stages[stage].ranks[part]};
      for (int i = 0; i < static_cast<int>(node->plan().ports().size()); ++i) {
        const PortPlan& port = node->plan().ports()[i];
        EXPECT_LT(port.segment, node->segments());
        EXPECT_TRUE(!port.landing || IsReadInPlace(*node, i)) << "stage " << stage << ", edge " << port.edge;
        EXPECT_EQ(Bytes(*node, i), static_cast<size_t>(port.row_bytes) * kRows);
        auto& ends = port.landing ? landing : leaving;
        const Ends key = port.landing ? Ends(port.channel, port.peers, self) : Ends(port.channel, self, port.peers);
        EXPECT_TRUE(ends.emplace(key, Bytes(*node, i)).second) << "a port twice";
      }
    }
  }
  EXPECT_EQ(leaving, landing);
  EXPECT_FALSE(leaving.empty());
}

TEST(NodeNet, OneProcessIsOneSegmentWithoutPorts) {
  const PlacedNet net(SmallNet(), Layout(1, {}, {}));
  const auto node = net.MakeNet(0, 0, kRows);
  EXPECT_EQ(node->segments(), 1);
  EXPECT_TRUE(node->plan().ports().empty());
  EXPECT_TRUE(node->plan().has_backward(0));
  EXPECT_TRUE(node->plan().reads_images());
  EXPECT_TRUE(node->plan().reads_labels(0));
  EXPECT_EQ(node->plan().params().size(), 8u);
  ASSERT_EQ(node->outputs().size(), 1u);
  EXPECT_EQ(node->outputs()[0].layer, "loss");
}

TEST(NodeNet, OneShardRunsAllLayersInOneSegment) {
  const PlacedNet net(SmallNet(), Layout(2, {1}, {kIp1}));
  const auto conv = net.MakeNet(0, 1, kRows), fc = net.MakeNet(1, 0, kRows);
  EXPECT_EQ(Count(*conv), (PortCount{.out = 1, .gradients_in = 1}));
  EXPECT_EQ(Count(*fc), (PortCount{.in = 1, .gradients_out = 1}));
  EXPECT_EQ(fc->segments(), 1);
  EXPECT_EQ(fc->plan().ports()[0].peers, (std::vector<Rank>{0, 1})) << "from the replica whose micro-batch it is";
  EXPECT_FALSE(fc->plan().reads_images());
  EXPECT_FALSE(conv->plan().reads_labels(0));
  ExpectPortsMatch(net);
}

TEST(NodeNet, ExchangePointsCutShardsIntoSegments) {
  for (int shards : {2, 4}) {
    SCOPED_TRACE(shards);
    const PlacedNet net(SmallNet(), Layout(1, {shards}, {kIp1}));
    const auto conv = net.MakeNet(0, 0, kRows);
    EXPECT_EQ(Count(*conv), (PortCount{.out = shards, .gradients_in = shards}));
    const int peers = shards - 1;
    // Slices of ip1 and ip2, and what is said of the classes of ip3, from and to every other shard.
    for (int part = 0; part < shards; ++part) {
      const auto node = net.MakeNet(1, part, kRows);
      EXPECT_EQ(node->segments(), 4);
      EXPECT_EQ(Count(*node), (PortCount{3 * peers, 1 + 3 * peers, 1 + 2 * peers, 2 * peers}));
      for (int segment = 0; segment < 4; ++segment) {
        EXPECT_EQ(node->plan().reads_labels(segment), segment >= 2) << segment;
        EXPECT_TRUE(node->plan().has_backward(segment)) << segment;
      }
      EXPECT_EQ(node->outputs().size(), part == 0 ? 1u : 0u) << "shard 0 reports";
    }
    ExpectPortsMatch(net);
  }
}

TEST(NodeNet, ShardsHoldAllRowsOnce) {
  const PlacedNet net(SmallNet(), Layout(1, {4}, {kIp1}));
  std::map<std::pair<std::string, int>, int64_t> next;  // where the next shard's rows begin
  for (int part = 0; part < 4; ++part) {
    const auto node = net.MakeNet(1, part, kRows);
    for (const ParamPlan& param : node->plan().params()) {
      int64_t& row = next[{param.layer, param.blob}];
      EXPECT_EQ(param.block.begin_row, row) << param.layer;
      EXPECT_GT(param.block.end_row, row);
      row = param.block.end_row;
    }
  }
  const std::map<std::pair<std::string, int>, int64_t> whole = {{{"ip1", 0}, 50}, {{"ip1", 1}, 50}, {{"ip2", 0}, 30},
                                                                {{"ip2", 1}, 30}, {{"ip3", 0}, 5},  {{"ip3", 1}, 5}};
  EXPECT_EQ(next, whole);
}

TEST(NodeNet, TwoFcStages) {
  const PlacedNet net(SmallNet(), Layout(2, {2, 3}, {kIp1, kIp2}));
  const auto first = net.MakeNet(1, 1, kRows);
  EXPECT_EQ(first->segments(), 1);
  EXPECT_EQ(Count(*first), (PortCount{.out = 3, .in = 1, .gradients_out = 1, .gradients_in = 3}));
  for (int part : {0, 2}) {
    const auto last = net.MakeNet(2, part, kRows);
    EXPECT_EQ(last->segments(), 3);
    EXPECT_EQ(Count(*last), (PortCount{2 + 2, 2 + 2 + 2, 2 + 2, 2}));
  }
  ExpectPortsMatch(net);
}

/// What a node sends and receives for one row, in floats.
struct Traffic {
  int64_t sent = 0, received = 0;
  bool operator==(const Traffic&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Traffic& traffic) {
  return out << traffic.sent << " sent, " << traffic.received << " received";
}

/// @param unit bytes.
Traffic TrafficOf(const NodeNet& net, int64_t unit = sizeof(float)) {
  Traffic traffic;
  for (const PortPlan& port : net.plan().ports()) {
    (port.landing ? traffic.received : traffic.sent) += port.row_bytes / unit;
  }
  return traffic;
}

// The formulas of scheduler/README.md, with two shards that divide all sizes but ip3's 5.
TEST(NodeNet, SplitsAndBoundariesCostWhatTheFormulasSay) {
  constexpr int64_t kBoundary = 54, kN1 = 50, kN2 = 30, kSaid = 3;  // floats of pool1, ip1, ip2
  const auto layout = Layout(1, {2}, {kIp1});
  const auto other = [](const PlacedNet& net) { return TrafficOf(*net.MakeNet(1, 1, kRows)); };
  const auto conv = [](const PlacedNet& net) { return TrafficOf(*net.MakeNet(0, 0, kRows)); };
  // kSaid: what a shard says of its classes of ip3 to the other one.
  const PlacedNet outputs(SmallNet(), layout);
  EXPECT_EQ(conv(outputs), (Traffic{2 * kBoundary, 2 * kBoundary}));
  EXPECT_EQ(other(outputs), (Traffic{kBoundary + kN1 + kN2 + kSaid, kBoundary + kN1 + kN2 + kSaid}));

  const PlacedNet alternating(SmallNet(), Splits(layout, {{kIp2, LayerSplit::kInputs}}));
  EXPECT_EQ(other(alternating), (Traffic{kBoundary + 2 * kN2 + kSaid, kBoundary + 2 * kN2 + kSaid}))
      << "ip1 stays where it is, ip2 is summed and gathered";

  // The addends of ip3 cross to shard 0 (2 of them) and 1 (3), their gradients likewise.
  const PlacedNet last(SmallNet(), Splits(layout, {{kIp3, LayerSplit::kInputs}}));
  EXPECT_EQ(other(last), (Traffic{kBoundary + kN1 + (2 + 3) + kSaid, kBoundary + kN1 + (3 + 2) + kSaid}));

  const PlacedNet scattered(SmallNet(), Scattered(layout, 1));
  EXPECT_EQ(conv(scattered), (Traffic{kBoundary, kBoundary}));
  EXPECT_EQ(other(scattered),
            (Traffic{kBoundary / 2 + kBoundary + kN1 + kN2 + kSaid, kBoundary / 2 + kBoundary + kN1 + kN2 + kSaid}));
  for (const PlacedNet* net : {&outputs, &alternating, &last, &scattered}) ExpectPortsMatch(*net);
}

// Not of addends, nor of what shards say of their classes. What lands is made float32 by a step of its own.
TEST(NodeNet, Bfloat16OnTheWireHalvesWhatCrosses) {
  constexpr int64_t kBoundary = 54, kN1 = 50, kN2 = 30, kSaid = 3;  // numbers of pool1, ip1, ip2, as above
  StageLayout layout = Layout(1, {2}, {kIp1});
  layout.wire = ElementType::kBFloat16;
  const auto expect = [](const PlacedNet& net, int64_t conv_numbers, int64_t numbers, int64_t floats) {
    EXPECT_EQ(TrafficOf(*net.MakeNet(0, 0, kRows), 1), (Traffic{2 * conv_numbers, 2 * conv_numbers}));
    const int64_t bytes = 2 * numbers + 4 * floats;
    EXPECT_EQ(TrafficOf(*net.MakeNet(1, 1, kRows), 1), (Traffic{bytes, bytes}));
    for (const int stage : {0, 1}) {
      const auto node = net.MakeNet(stage, 0, kRows);
      for (int i = 0; i < static_cast<int>(node->plan().ports().size()); ++i) {
        EXPECT_EQ(Bytes(*node, i), static_cast<size_t>(node->plan().ports()[i].row_bytes) * kRows);
      }
    }
  };
  expect(PlacedNet(SmallNet(), layout), 2 * kBoundary, kBoundary + kN1 + kN2, kSaid);
  expect(PlacedNet(SmallNet(), Splits(layout, {{kIp2, LayerSplit::kInputs}})), 2 * kBoundary, kBoundary + kN2,
         kN2 + kSaid);
  expect(PlacedNet(SmallNet(), Scattered(layout, 1)), kBoundary, kBoundary / 2 + kBoundary + kN1 + kN2, kSaid);
}

TEST(NodeNet, ParametersLieOnceWhateverTheSplits) {
  for (const auto& [split, shards] : {std::pair(LayerSplit::kInputs, 4),
                                      {LayerSplit::kInputs, 7},
                                      {LayerSplit::kNone, 3},
                                      {LayerSplit::kOutputs, 8}}) {
    const PlacedNet net(SmallNet(), Splits(Layout(1, {shards}, {kIp1}), {{kIp1, split}, {kIp2, split}, {kIp3, split}}));
    std::map<std::pair<std::string, int>, int64_t> elements;
    for (int part = 0; part < shards; ++part) {
      const auto node = net.MakeNet(1, part, kRows);
      for (const ParamPlan& param : node->plan().params()) {
        EXPECT_FALSE(param.block.empty()) << param.layer;
        elements[{param.layer, param.blob}] += param.block.count();
      }
    }
    const std::map<std::pair<std::string, int>, int64_t> whole = {{{"ip1", 0}, 50 * 54}, {{"ip1", 1}, 50},
                                                                  {{"ip2", 0}, 30 * 50}, {{"ip2", 1}, 30},
                                                                  {{"ip3", 0}, 150},     {{"ip3", 1}, 5}};
    EXPECT_EQ(elements, whole) << shards << " shards";
    ExpectPortsMatch(net);
  }
}

/// A plain sum has no backward pass: its bottoms' gradients are its own.
TEST(NodeNet, PlainSumsShareTheirGradient) {
  for (const std::string fields : {"", "eltwise_param { coeff: 1 coeff: -1 }"}) {
    std::string net = SmallNet();
    const std::string read = "bottom: 'ip2' top: 'ip3'";
    net.replace(net.find(read), read.size(), "bottom: 'sum' top: 'ip3'");
    net.insert(
        net.find("layer { name: 'ip3'"),
        "layer { name: 'up' type: 'InnerProduct' bottom: 'ip2' top: 'up' inner_product_param { num_output: 30 } }\n"
        "layer { name: 'sum' type: 'Eltwise' bottom: 'ip2' bottom: 'up' top: 'sum' " +
            fields + " }\n");
    const auto node = PlacedNet(net, Layout(1, {}, {}, 10)).MakeNet(0, 0, kRows);
    const auto sum = std::find_if(node->steps().begin(), node->steps().end(),
                                  [](const NetStep& step) { return step.name == "sum"; });
    ASSERT_NE(sum, node->steps().end());
    EXPECT_EQ(sum->backward, !fields.empty());
    EXPECT_EQ(sum->in_gradient[0] == sum->in_gradient[1], fields.empty());
  }
}

// A residual block: ReLUs behind a normalisation and behind a sum, both of which two layers read.
TEST(NodeNet, LeavesRelusToWhoeverPassesOverTheirMemory) {
  const auto block = [](const std::string& r1, const std::string& r2, const std::string& slope) {
    const char* const net =
        "name: 'residual'\n"
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n"
        "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
        "  convolution_param { num_output: 8 kernel_size: 3 pad: 1 bias_term: false } }\n"
        "layer { name: 'bn1' type: 'BatchNorm' bottom: 'conv1' top: 'conv1' }\n"
        "layer { name: 'scale1' type: 'Scale' bottom: 'conv1' top: 'conv1' scale_param { bias_term: true } }\n"
        "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'R1' relu_param { negative_slope: SLOPE } }\n"
        "layer { name: 'conv2' type: 'Convolution' bottom: 'R1' top: 'conv2'"
        "  convolution_param { num_output: 8 kernel_size: 3 pad: 1 } }\n"
        "layer { name: 'sum' type: 'Eltwise' bottom: 'R1' bottom: 'conv2' top: 'sum' }\n"
        "layer { name: 'relu2' type: 'ReLU' bottom: 'sum' top: 'R2' relu_param { negative_slope: SLOPE } }\n"
        "layer { name: 'a' type: 'Convolution' bottom: 'R2' top: 'a' convolution_param { num_output: 5 kernel_size: 8 "
        "} }\n"
        "layer { name: 'b' type: 'Convolution' bottom: 'R2' top: 'b' convolution_param { num_output: 5 kernel_size: 8 "
        "} }\n"
        "layer { name: 'ab' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'ab' }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ab' bottom: 'label' top: 'loss' }\n";
    std::string text = net;
    for (const auto& [name, value] : {std::pair("R1", r1), {"R2", r2}, {"SLOPE", slope}}) {
      text = std::regex_replace(text, std::regex(name), value);
    }
    return text;
  };
  const auto expect = [&](const std::string& net, caffe::Phase phase, bool apart) {
    const auto node = PlacedNet(net, Layout(1, {}, {}, 13), phase).MakeNet(0, 0, kRows);
    for (const char* name : {"relu1", "relu2"}) {
      const auto relu = std::find_if(node->steps().begin(), node->steps().end(),
                                     [name](const NetStep& step) { return step.name == name; });
      ASSERT_NE(relu, node->steps().end());
      EXPECT_EQ(relu->forward, apart) << name;
      EXPECT_EQ(relu->backward, apart && phase == caffe::TRAIN) << name;
    }
  };
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    SCOPED_TRACE(caffe::Phase_Name(phase));
    expect(block("conv1", "sum", "0"), phase, false);
    expect(block("conv1", "sum", "0.1"), phase, true);
    expect(block("r1", "r2", "0"), phase, true);
  }
}

// What no neighbour can do stays with it.
TEST(NodeNet, KeepsOfAReluWhatNobodyTakes) {
  const auto conv = [](const std::string& bottom, const std::string& top) {
    return "layer { name: '" + top + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + top +
           "' convolution_param { num_output: 8 kernel_size: 3 pad: 1 } }\n";
  };
  const auto sum = [](const std::string& a, const std::string& b, const std::string& top) {
    return "layer { name: '" + top + "' type: 'Eltwise' bottom: '" + a + "' bottom: '" + b + "' top: '" + top + "' }\n";
  };
  const std::string relu = "layer { name: 'relu' type: 'ReLU' bottom: 'x' top: 'x' }\n";
  const auto expect = [](const std::string& layers, int count, bool forward, bool backward) {
    SCOPED_TRACE(layers);
    const std::string net =
        "name: 'n'\n"
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n" +
        layers +
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'ip' inner_product_param { num_output: 5 } }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
    const auto node = PlacedNet(net, Layout(1, {}, {}, count + 3)).MakeNet(0, 0, kRows);
    const auto step =
        std::find_if(node->steps().begin(), node->steps().end(), [](const NetStep& one) { return one.name == "relu"; });
    ASSERT_NE(step, node->steps().end());
    EXPECT_EQ(step->forward, forward);
    EXPECT_EQ(step->backward, backward);
  };
  expect(conv("data", "x") + relu + conv("x", "y"), 3, true, true);
  expect(conv("data", "x") + relu + conv("x", "z") + sum("x", "z", "y"), 4, true, false);
  const std::string summed = conv("data", "a") + conv("data", "b") + sum("a", "b", "x");
  expect(summed + relu + conv("x", "y"), 5, false, true);
  expect(summed + relu + conv("x", "z") + sum("x", "z", "y"), 6, false, false);
  // A plain sum's gradient is that of both its bottoms, in one memory.
  expect(summed + relu + conv("data", "z") + sum("x", "z", "y"), 6, false, true);
}

TEST(NodeNet, FrozenConvLayersHaveNoBackward) {
  const PlacedNet net(SmallNet(true), Layout(2, {2}, {kIp1}));
  const auto conv = net.MakeNet(0, 0, kRows);
  EXPECT_EQ(Count(*conv), (PortCount{.out = 2}));
  EXPECT_FALSE(conv->plan().has_backward(0));
  for (const NetStep& step : conv->steps()) EXPECT_FALSE(step.learns) << step.name;
  const auto fc = net.MakeNet(1, 1, kRows);
  EXPECT_TRUE(fc->plan().has_backward(0)) << "ip1 learns";
  ExpectPortsMatch(net);
}

TEST(NodeNet, TestsHaveNoGradients) {
  const PlacedNet net(SmallNet(), Layout(2, {2}, {kIp1}), caffe::TEST);
  for (int part : {0, 1}) {
    const auto fc = net.MakeNet(1, part, kRows);
    EXPECT_EQ(Count(*fc).gradients_in + Count(*fc).gradients_out, 0);
    for (int segment = 0; segment < fc->segments(); ++segment) EXPECT_FALSE(fc->plan().has_backward(segment));
  }
  ExpectPortsMatch(net);
}

// Deferred: the update's rows of inputs and output gradients take less memory than the gradient.
TEST(NodeNet, DefersWhereTheRowsAreSmallerThanTheGradient) {
  // Inputs and outputs of the shard's part: 54 x 25, 50 x 15, 30 x 2 (or 3).
  const std::map<std::string, std::pair<int64_t, int64_t>> sizes = {
      {"ip1", {54, 25}}, {"ip2", {50, 15}}, {"ip3", {30, 2}}};
  const PlacedNet net(SmallNet(), Layout(2, {2}, {kIp1}));
  for (int64_t update_rows : {0, 1, 8, 11, 12, 17, 18, 40}) {
    const auto fc = net.MakeNet(1, 0, 1, update_rows);
    size_t matrices = 0;
    for (const NetStep& step : fc->steps()) {
      if (!step.learns) continue;
      const auto [inputs, outputs] = sizes.at(step.name);
      const bool smaller = update_rows > 0 && update_rows * (inputs + outputs) < inputs * outputs;
      EXPECT_EQ(step.deferred, smaller) << step.name << " with " << update_rows << " rows";
      EXPECT_EQ(step.update_op != nullptr, smaller);
      matrices += smaller ? step.in.size() + 1 : 0;
    }
    // An activation that stands in one layer's matrix is that layer's only.
    EXPECT_EQ(fc->update_row_bytes().size(), matrices) << update_rows;
  }
}

TEST(NodeNet, RowsOfAnUpdateLieBehindEachOther) {
  const PlacedNet net(SmallNet(), Layout(2, {1}, {kIp1}));
  const auto fc = net.MakeNet(1, 0, kRows, 8);
  ASSERT_FALSE(fc->update_row_bytes().empty());
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> matrices;
  for (size_t bytes : fc->update_row_bytes()) memory.emplace_back(bytes * 8);
  for (auto& matrix : memory) matrices.push_back(matrix.data());
  const std::vector<PortPlan>& ports = fc->plan().ports();
  const auto landing = std::find_if(ports.begin(), ports.end(), [](const PortPlan& port) { return port.landing; });
  ASSERT_NE(landing, ports.end());
  const int buffer = fc->port_buffer(static_cast<int>(landing - ports.begin()));
  NetRun first, second;
  first.update_matrices = second.update_matrices = matrices;
  second.update_row = kRows;
  const auto a = fc->BufferSpan(buffer, first), b = fc->BufferSpan(buffer, second);
  EXPECT_EQ(a.size(), kRows * 54 * sizeof(float));
  EXPECT_EQ(b.data(), a.data() + a.size()) << "the second micro-batch lands right behind the first";
}

}  // namespace
}  // namespace hp::test

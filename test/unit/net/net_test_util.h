#pragma once

#include "backend/backend.h"
#include "layers/op_factories.h"
#include "net/node_net.h"
#include "net/plan/cuts.h"
#include "net/plan/graph.h"
#include "net/plan/placement.h"
#include "proto/caffe.pb.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp::test {

inline std::shared_ptr<const caffe::NetParameter> ParseNet(const std::string& text) {
  auto net = std::make_shared<caffe::NetParameter>();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, net.get())) << text;
  return net;
}

inline const Shape kSample = {3, 8, 8};
inline constexpr int kIp1 = 3, kIp2 = 5, kIp3 = 6;  ///< layers of SmallNet

/// conv - pool | ip1 - relu - ip2 - relu - ip3 - loss; layers 0 to 7 in training.
inline std::string SmallNet(bool frozen_conv = false) {
  const std::string lr = frozen_conv ? "param { lr_mult: 0 } param { lr_mult: 0 }" : "";
  return "name: 'small'\n"
         "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }\n"
         "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' " +
         lr +
         "  convolution_param { num_output: 6 kernel_size: 3 } }\n"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 "
         "} "
         "}\n"
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1' top: 'ip1' inner_product_param { num_output: 50 } "
         "}\n"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' inner_product_param { num_output: 30 } }\n"
         "layer { name: 'ip3' type: 'InnerProduct' bottom: 'ip2' top: 'ip3' inner_product_param { num_output: 5 } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' }\n";
}

/// Conv replicas, then FC stages of so many shards; stage i begins at layer `starts[i - 1]`.
inline StageLayout Layout(int replicas, const std::vector<int>& fc, const std::vector<int>& starts, int layers = 8) {
  StageLayout layout;
  Rank next = 0;
  const auto add = [&](bool data_parallel, int parts) {
    layout.stages.push_back({data_parallel, {}, false});
    for (int part = 0; part < parts; ++part) layout.stages.back().ranks.push_back(next++);
  };
  add(true, replicas);
  for (int shards : fc) add(false, shards);
  for (int layer = 0; layer < layers; ++layer) {
    int stage = 0;
    while (stage < static_cast<int>(fc.size()) && layer >= starts[stage]) ++stage;
    layout.stage_of_layer.push_back(stage);
  }
  return layout;
}

/// `layout` with some layers split otherwise than by outputs.
inline StageLayout Splits(StageLayout layout, const std::map<int, LayerSplit>& splits) {
  layout.split_of_layer.assign(layout.stage_of_layer.size(), LayerSplit::kOutputs);
  for (const auto& [layer, split] : splits) layout.split_of_layer[layer] = split;
  return layout;
}

/// `layout` with an FC stage whose boundary is scattered.
inline StageLayout Scattered(StageLayout layout, int stage) {
  layout.stages[stage].scattered = true;
  return layout;
}

/// A net on its stages. Not movable: the placement points to the graph.
struct PlacedNet {
  PlacedNet(const std::string& text, const StageLayout& layout, caffe::Phase phase = caffe::TRAIN) {
    const auto net = ParseNet(text);
    const auto cuts = FindCuts(net, phase, LayerTypes::BuiltIn(), kSample, layout);
    EXPECT_TRUE(cuts.ok()) << cuts.status();
    if (!cuts.ok()) return;
    auto made = NetGraph::Create(net, phase, LayerTypes::BuiltIn(), *cuts);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return;
    graph = *std::move(made);
    auto placed = Placement::Create(*graph, kSample, layout);
    EXPECT_TRUE(placed.ok()) << placed.status();
    if (placed.ok()) placement = std::make_unique<Placement>(*std::move(placed));
  }

  /// The edges by which a stage gets blob `name`: of two of that name (in place) the later one.
  const Edge* FindEdge(const std::string& name, int to_stage) const {
    const Edge* found = nullptr;
    for (const Edge& edge : placement->edges()) {
      if (graph->blobs()[edge.blob].name == name && edge.to_stage == to_stage) found = &edge;
    }
    return found;
  }
  std::unique_ptr<NodeNet> MakeNet(int stage, int part, int64_t rows, int64_t update_rows = 0,
                                   const OpFactories& ops = OpFactories::BuiltIn()) const {
    static const std::unique_ptr<Backend> backend = MakeCpuBackend();
    auto plan = NodePlan::Create(*graph, *placement, {{{stage, part}}, kSample, update_rows});
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return nullptr;
    auto net = NodeNet::Create(*plan, {.backend = backend.get(), .ops = &ops}, rows);
    EXPECT_TRUE(net.ok()) << net.status();
    return net.ok() ? *std::move(net) : nullptr;
  }

  std::unique_ptr<NetGraph> graph;
  std::unique_ptr<Placement> placement;
};

}  // namespace hp::test

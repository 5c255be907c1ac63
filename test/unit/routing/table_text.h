#pragma once

#include "proto/text.h"
#include "scheduler/plan/routing_table.h"

#include <gtest/gtest.h>

#include <string>

namespace hp {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  const Status status = ParseTextProto(text, "text", &message);
  EXPECT_TRUE(status.ok()) << status.message();
  return message;
}

inline RoutingTable MakeTable(const std::string& text) {
  auto table = RoutingTable::Create(Parse<RoutingTableConfig>(text), "/job/table.prototxt");
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

/// Two conv replicas and two shards; the shards in reverse order of ranks.
constexpr char kTable[] = R"(
    solver: "solver.prototxt"
    stage { name: "conv" kind: CONV to_layer: "pool1" }
    stage { name: "fc" kind: FC from_layer: "ip1" }
    node { name: "conv0" stage: 0 index: 0 host: "a" port: 29500 }
    node { name: "conv1" stage: 0 index: 1 host: "b" port: 29500 }
    node { name: "fc1" stage: 1 index: 1 host: "a" port: 29501 }
    node { name: "fc0" stage: 1 index: 0 host: "b" port: 29501 threads: 3 }
    micro_batches: 2
)";

constexpr char kNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } data_param { batch_size: 8 } }
    layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST } data_param { batch_size: 3 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" }
    layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 5 } }
    layer { name: "relu2" type: "ReLU" bottom: "ip1" top: "ip1" }
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 3 } }
    layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" include { phase: TEST } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })";

}  // namespace hp

#pragma once

#include "proto/text.h"
#include "scheduler/plan/job_plan.h"
#include "test/fuzz/fuzz.h"

#include <google/protobuf/stubs/logging.h>

#include <memory>
#include <string>
#include <utility>

// A small job for the fuzz targets that need one.
namespace hp::fuzz {

/// Protobuf's log about text that is not UTF-8.
inline const google::protobuf::LogSilencer quiet_protobuf;

/// A message from its text, which must be right.
template <typename Message>
Message ParsedText(const std::string& text) {
  Message message;
  Expect(ParseTextProto(text, "fuzz", &message).ok());
  return message;
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
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 4 kernel_size: 3 } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 50 } }
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 7 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })";

constexpr char kSolver[] = "max_iter: 10 test_iter: 2 test_interval: 5";

/// Plans a job for 8 x 8 images. @param table must outlive the plan.
inline StatusOr<std::unique_ptr<JobPlan>> PlanOf(const RoutingTable& table, const caffe::NetParameter& net,
                                                 const caffe::SolverParameter& solver) {
  JobPlan::Options options;
  options.table = &table;
  options.solver = solver;
  options.net = std::make_shared<const caffe::NetParameter>(net);
  options.train_shape = options.test_shape = Shape{1, 8, 8};
  return JobPlan::Create(options);
}

/// kTable.
inline RoutingTable SmallTable() {
  auto table = RoutingTable::Create(ParsedText<RoutingTableConfig>(kTable), "/job/table");
  Expect(table.ok());
  return *std::move(table);
}

}  // namespace hp::fuzz

#pragma once

#include "proto/text.h"
#include "scheduler/plan/job_plan.h"

#include "glog/logging.h"

#include <memory>
#include <string>

// Routing table, nets and solver of a small job, for tests and fuzz targets that need one. Text that is wrong ends the
// program. Without GoogleTest, which fuzz targets do not have.
namespace hp {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  const Status status = ParseTextProto(text, "text", &message);
  CHECK(status.ok()) << status;
  return message;
}

inline RoutingTable MakeTable(const std::string& text) {
  auto table = RoutingTable::Create(Parse<RoutingTableConfig>(text), "/job/table.prototxt");
  CHECK(table.ok()) << table.status();
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

/// Likewise, with two parameter servers in place of a shard; rank 4 is server 0.
constexpr char kServedTable[] = R"(
    solver: "solver.prototxt"
    stage { name: "conv" kind: CONV to_layer: "pool1" exchange: PARAMETER_SERVER }
    stage { name: "fc" kind: FC from_layer: "ip1" }
    stage { name: "ps" kind: PS serves: "conv" }
    node { name: "conv0" stage: 0 index: 0 host: "a" port: 29500 }
    node { name: "conv1" stage: 0 index: 1 host: "b" port: 29500 }
    node { name: "fc0" stage: 1 index: 0 host: "b" port: 29501 }
    node { name: "ps1" stage: 2 index: 1 host: "c" port: 29500 }
    node { name: "ps0" stage: 2 index: 0 host: "d" port: 29500 }
    micro_batches: 2
)";

/// A net that fits kTable, with layers of one phase and in-place pairs; without the sizes that a plan needs.
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

/// A net that can be planned. By kTable each node runs one segment; the replicas read 4 of 8 rows each, in two
/// micro-batches; rank 3 is shard 0, rank 2 shard 1.
constexpr char kJobNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 4 kernel_size: 3 } }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 50 } }
    layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 7 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })";

constexpr char kJobSolver[] = "max_iter: 10 test_iter: 2 test_interval: 5";

/// Plans a job for 8 x 8 images. @param table must outlive the plan. @param sample of every phase.
inline StatusOr<std::unique_ptr<JobPlan>> PlanOf(const RoutingTable& table, const caffe::NetParameter& net,
                                                 const caffe::SolverParameter& solver,
                                                 const SampleShape& sample = Shape{1, 8, 8}) {
  JobPlan::Options options;
  options.table = &table;
  options.solver = solver;
  options.net = std::make_shared<const caffe::NetParameter>(net);
  options.samples.assign(1 + solver.test_iter_size(), sample);
  return JobPlan::Create(options);
}

/// The plan of kJobNet and kJobSolver. @param table must outlive it.
inline std::unique_ptr<JobPlan> SmallJob(const RoutingTable& table) {
  auto job = PlanOf(table, Parse<caffe::NetParameter>(kJobNet), Parse<caffe::SolverParameter>(kJobSolver));
  CHECK(job.ok()) << job.status();
  return *std::move(job);
}

}  // namespace hp

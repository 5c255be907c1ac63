#include "test/unit/planner/planned_bytes.h"

#include "proto/text.h"
#include "test/support/small_job.h"

namespace hp {
namespace {

constexpr char kTailNet[] = R"(
    layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 24 } }
    layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
            convolution_param { num_output: 8 kernel_size: 3 } }
    layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
    layer { name: "fc6" type: "InnerProduct" bottom: "pool1" top: "fc6" inner_product_param { num_output: 40 } }
    layer { name: "relu6" type: "ReLU" bottom: "fc6" top: "fc6" }
    layer { name: "fc7" type: "InnerProduct" bottom: "fc6" top: "fc7" inner_product_param { num_output: 20 } }
    layer { name: "relu7" type: "ReLU" bottom: "fc7" top: "fc7" }
    layer { name: "fc8" type: "InnerProduct" bottom: "fc7" top: "fc8" inner_product_param { num_output: 12 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc8" bottom: "label" top: "loss" })";

}  // namespace

std::shared_ptr<const caffe::NetParameter> TailNet() {
  return std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(kTailNet));
}

std::pair<double, double> BytesOf(const JobPlan& job, Rank rank) {
  double out = 0, in = 0;
  const PipelinePlan pipeline = job.pipeline(rank);
  for (const MsgId id : job.schedule().TrainIds(0, pipeline.share)) {
    const int64_t rows = job.schedule().SamplesOfId(id).rows;
    for (const PortPlan& port : job.node(rank, caffe::TRAIN, pipeline.VariantOf(id)).ports()) {
      (port.landing ? in : out) += static_cast<double>(port.row_bytes * rows);
    }
  }
  const StageInfo& stage = job.table().stage(job.table().node(rank).parts[0].stage);
  double exchanged = 0;
  for (const ParamGroupPlan& group : pipeline.groups) {
    const int replicas = group.exchange == GroupExchange::kSum ? stage.size() : job.table().replicas();
    const double times = group.exchange == GroupExchange::kSum     ? 2.0 * (replicas - 1) / replicas
                         : group.exchange == GroupExchange::kPush  ? 1
                         : group.exchange == GroupExchange::kServe ? replicas
                                                                   : 0;
    const size_t number = group.exchange == GroupExchange::kSum ? BytesOf(job.table().wire()) : sizeof(float);
    for (const ParamPlan& param : job.node(rank, caffe::TRAIN).params()) {
      if (param.graph_layer == group.layer)
        exchanged += times * static_cast<double>(number) * static_cast<double>(param.block.count());
    }
  }
  return {out + exchanged, in + exchanged};
}

}  // namespace hp

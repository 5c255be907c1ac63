// The step in which a node plans the job and builds its model: shapes, precision, threads and the fit to memory are
// decided here, and so is who reports.
#include "base/format.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_names.h"
#include "engine/image_expander.h"
#include "engine/memory_fit.h"
#include "input/dummy_dataset.h"
#include "node/node.h"
#include "proto/net_filter.h"
#include "proto/place.h"
#include "scheduler/control/messages.h"
#include "scheduler/plan/job_precision.h"
#include "scheduler/plan/main_accuracy.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

Status Node::BuildModel() {
  if (options_.rank == 0) {
    requests_.Keep(table_.size(), files_.solver.clip_gradients(), files_.loss_scaler, files_.solver.max_iter());
  }
  const std::optional<int64_t> drawn = bootstrap_->handshake()->seed();
  const std::optional<int64_t> seed = files_.resumed_seed ? files_.resumed_seed : drawn;
  CHECK(seed) << "no seed after the handshake";
  seed_ = static_cast<uint64_t>(*seed);
  HP_ASSIGN_OR_RETURN(std::shared_ptr<const JobPlan> job, PlanJob());
  HP_RETURN_IF_ERROR(TakePrecision(*job));
  NodeModel::Options options;
  options.rank = options_.rank;
  options.op_factories = options_.op_factories;
  options.backend = device_.backend.get();
  options.device = device_.device.get();
  options.seed = seed_;
  const int threads = ThreadsOf(options_.rank);
  HP_RETURN_IF_ERROR(TakeThreads(threads));
  const MemoryRoom room = HostMemoryRoom();
  HP_RETURN_IF_ERROR(CheckPlannedMemory(*job, options_.rank, device_.device->is_host() ? room : AddressSpaceRoom()));
  HP_RETURN_IF_ERROR(
      CheckPlannedHostMemory(*job, bootstrap_->handshake()->NodesOnHostOf(options_.rank), MachineMemory()));
  HP_ASSIGN_OR_RETURN(model_, NodeModel::Create(std::move(job), options));
  const size_t decoder = table_.decodes_on_gpus() ? ImageExpander::DecoderBytes(*model_, files_.inputs) : 0;
  HP_ASSIGN_OR_RETURN(memory_, FitMemory(*model_, ExchangeHostBytes(*model_), room, decoder));
  LOG(INFO) << "node " << info_.name << ": seed " << seed_ << ", " << threads << " thread(s), "
            << model_->part(caffe::TRAIN).segments() << " segment(s); " << memory_.Describe();
  std::vector<int64_t> label_numbers;
  for (const Phase phase : model_->phases())
    label_numbers.push_back(static_cast<int64_t>(model_->job().label_numbers(phase).size()));
  labels_ = std::make_unique<LabelStore>(model_->schedule(), std::move(label_numbers));
  label_feed_ = std::make_unique<LabelFeed>(
      *model_, labels_.get(), [this](Rank rank, const LabelsMessage& message) { Send(rank, kLabelsMessage, message); });
  return MakeReporter();
}

StatusOr<std::shared_ptr<const JobPlan>> Node::PlanJob() const {
  JobPlan::Options plan;
  plan.table = &table_;
  plan.solver = files_.solver;
  plan.net = files_.net;
  plan.types = options_.layer_types;
  plan.samples.resize(1 + files_.solver.test_iter_size());
  for (const DataShape& shape : bootstrap_->handshake()->data_shapes()) {
    if (shape.phase() < 0 || shape.phase() >= std::ssize(plan.samples)) continue;
    SampleShape& sample = plan.samples[shape.phase()];
    sample = {Shape(std::vector<int64_t>(shape.data().begin(), shape.data().end())),
              Shape(std::vector<int64_t>(shape.label().begin(), shape.label().end()))};
    for (const DataShape::Other& other : shape.other())
      sample.others.emplace_back(std::vector<int64_t>(other.dim().begin(), other.dim().end()));
  }
  HP_ASSIGN_OR_RETURN(std::shared_ptr<const JobPlan> job, JobPlan::Create(plan));
  if (options_.rank == 0 || options_.rank == table_.snapshot_copier())
    HP_RETURN_IF_ERROR(CheckSnapshotSize(job->solver(), job->parameter_bytes()));
  HP_RETURN_IF_ERROR(AtLayer(CheckSnapshotNames(job->solver(), job->parameter_bytes(),
                                                FilterNet(*files_.net, caffe::TRAIN), LayersWith(job->params())),
                             *files_.net, caffe::TRAIN));
  return job;
}

Status Node::TakePrecision(const JobPlan& job) {
  precision_ = table_.config().precision();
  if (precision_ == RoutingTableConfig::AUTO) {
    const JobHandshake* const handshake = bootstrap_->handshake();
    const auto lacks = [handshake](Rank rank) { return handshake->LacksBFloat16(rank); };
    precision_ = files_.resumed_precision.value_or(ChoosePrecision(job, lacks));
    LOG(INFO) << "precision: AUTO is " << RoutingTableConfig::Precision_Name(precision_)
              << (files_.resumed_precision ? ", as before the snapshot" : "");
  }
  HP_RETURN_IF_ERROR(CheckPrecision(job, options_.rank, precision_, device_.lacks_bfloat16));
  if (device_.backend != nullptr) return OkStatus();
  HP_ASSIGN_OR_RETURN(device_.backend, device_.make_backend(precision_));
  return OkStatus();
}

Status Node::MakeReporter() {
  if (model_->job().reporter() != options_.rank) {
    LOG(INFO) << "losses and accuracies are in the log of node \"" << table_.node(model_->job().reporter()).name
              << "\"";
    return OkStatus();
  }
  const std::vector<GraphLayer>& layers = model_->job().graph(caffe::TRAIN).layers();
  if (std::none_of(layers.begin(), layers.end(), [](const GraphLayer& layer) { return layer.leads_to_loss; }))
    LOG(WARNING) << "no layer of phase TRAIN has a loss: nothing will be learnt";
  HP_RETURN_IF_ERROR(OpenCurves());
  reporter_ = std::make_unique<Reporter>(model_->job(), files_.rates.get(), options_.clock, files_.start_clock,
                                         options_.on_loss, curves_.get(), events_.get());
  reporter_ready_ = true;
  return OkStatus();
}

Status Node::OpenCurves() {
  if (!options_.tensorboard.empty()) {
    if (files_.solver.display() == 0 && !model_->job().tests()) {
      return InvalidArgument("--tensorboard=%s has points for each display and test; the solver has neither",
                             options_.tensorboard.c_str());
    }
    HP_ASSIGN_OR_RETURN(events_, EventFile::Create(options_.tensorboard, files_.start_clock));
  }
  if (options_.csv.empty()) return OkStatus();
  const bool tests = model_->job().tests() && MainAccuracy(model_->job(), Phase::OfTest(0)) >= 0;
  if (files_.solver.display() == 0 && !tests) {
    return InvalidArgument(
        "--csv=%s has a row for each display and for each accuracy of the first test net; the job has neither",
        options_.csv.c_str());
  }
  CurveFile::Options options{options_.csv, files_.start_clock, model_->schedule().update_rows()};
  for (const DataShape& shape : bootstrap_->handshake()->data_shapes()) {
    if (shape.phase() == 0 && shape.records() < DummyDataset::kRecords) options.records = shape.records();
  }
  HP_ASSIGN_OR_RETURN(curves_, CurveFile::Create(options));
  return OkStatus();
}

}  // namespace hp

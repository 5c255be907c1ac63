#include "model/node_model.h"

#include "base/range.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int kConvPool = 4;  // enough to hide a round trip behind three micro-batches

}  // namespace

StatusOr<std::unique_ptr<NodeModel>> NodeModel::Create(const Options& options) {
  std::unique_ptr<NodeModel> model(new NodeModel(options));
  const RoutingTable& table = *options.table;
  StageLayout layout;
  for (const StageInfo& stage : table.stages()) layout.stages.push_back({stage.conv, stage.size()});
  HP_ASSIGN_OR_RETURN(layout.stage_of_layer, table.StageOfLayers(*options.net));
  HP_ASSIGN_OR_RETURN(model->train_.graph, NetGraph::Create(options.net, caffe::TRAIN, *options.layer_types));
  if (options.solver.test_iter_size() > 0) {
    HP_ASSIGN_OR_RETURN(model->test_.graph, NetGraph::Create(options.net, caffe::TEST, *options.layer_types));
  }
  HP_RETURN_IF_ERROR(model->BuildSchedule(*model->train_.graph, model->test_.graph.get()));
  model->plan_.replica = model->data_parallel() ? model->node().index : -1;
  HP_RETURN_IF_ERROR(model->BuildPhase(true, layout, &model->train_));
  if (model->tests()) HP_RETURN_IF_ERROR(model->BuildPhase(false, layout, &model->test_));
  model->PlanPhase(true, &model->plan_.train);
  if (model->tests()) model->PlanPhase(false, &model->plan_.test);
  model->PlanUnits();
  model->FindWholeParams();
  model->FindOutputs(true, &model->train_outputs_);
  if (model->tests()) model->FindOutputs(false, &model->test_outputs_);
  return model;
}

Status NodeModel::BuildSchedule(const NetGraph& train, const NetGraph* test) {
  const caffe::SolverParameter& solver = options_.solver;
  JobShape shape;
  shape.replicas = table().replicas();
  shape.micro_batches = table().micro_batches();
  shape.train_batch = table().GlobalBatch(train.batch_size());
  shape.iter_size = solver.iter_size();
  shape.max_iter = solver.max_iter();
  if (test != nullptr) {
    shape.test_batch = table().GlobalBatch(test->batch_size());
    shape.test_iter = solver.test_iter(0);
    shape.test_interval = solver.test_interval();
    shape.test_initialization = solver.test_initialization();
  }
  const int64_t parts = int64_t{shape.replicas} * shape.micro_batches;
  if (shape.train_batch < parts) {
    return InvalidArgument("%s: a batch of %lld samples can't be divided over %d replicas with %d micro-batches each",
                           table().path().c_str(), static_cast<long long>(shape.train_batch), shape.replicas,
                           shape.micro_batches);
  }
  schedule_ = std::make_unique<Schedule>(shape);
  return OkStatus();
}

Status NodeModel::BuildPhase(bool train, const StageLayout& layout, PhaseModel* phase) {
  const Shape& sample = train ? options_.train_shape : options_.test_shape;
  HP_ASSIGN_OR_RETURN(phase->shapes, phase->graph->Shapes(sample, 1));
  HP_ASSIGN_OR_RETURN(Placement placement, Placement::Create(*phase->graph, layout));
  phase->placement = std::make_unique<Placement>(std::move(placement));
  NodeRole role;
  role.stage = node().stage;
  role.part = node().index;
  role.sample_shape = sample;
  role.backend = options_.backend;
  role.ops = options_.op_factories;
  role.seed = options_.seed;
  // A replica among several must give its weight gradients to the exchange as they come; everybody else may defer.
  const bool alone = !data_parallel() || table().replicas() == 1;
  role.update_rows = train && alone ? schedule_->update_rows() : 0;
  for (int64_t rows : schedule_->RowCounts(train)) {
    HP_ASSIGN_OR_RETURN(phase->nets[rows], NodeNet::Create(*phase->graph, *phase->placement, role, rows));
    arena_bytes_ = std::max(arena_bytes_, phase->nets[rows]->arena_bytes());
    scratch_bytes_ = std::max(scratch_bytes_, phase->nets[rows]->scratch_bytes());
  }
  FindLabelReaders(train, phase);
  return OkStatus();
}

void NodeModel::FindLabelReaders(bool train, PhaseModel* phase) {
  const auto& layers = phase->graph->layers();
  int last_stage = 0;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    if (!layers[i].traits.reads_labels()) continue;
    const int stage = phase->placement->stage_of(i);
    last_stage = std::max(last_stage, stage);
    const int64_t classes = phase->shapes[layers[i].bottoms[0]].dim(1);
    phase->label_rules.push_back({layers[i].traits.name(), classes, layers[i].traits.ignore_label()});
    const StageInfo& info = table().stage(stage);
    for (int part = 0; part < info.size(); ++part) {
      const bool needs = info.conv ? layers[i].traits.needs_batch_labels() : phase->placement->RunsOn(i, part);
      if (needs) phase->label_readers.insert(info.ranks[part]);
    }
  }
  if (train) reporter_ = table().rank_of(last_stage, 0);
}

void NodeModel::PlanPhase(bool train, PhasePlan* plan) const {
  const NodeNet& net = any_net(train);
  plan->segments = net.segments();
  for (int segment = 0; segment < net.segments(); ++segment)
    plan->backward.push_back(train && net.has_backward(segment));
  for (const NetPort& port : net.ports()) {
    PortPlan entry;
    entry.port = static_cast<uint32_t>(port.edge) * 2 + (port.gradient ? 1 : 0);
    entry.landing = port.landing;
    entry.gradient = port.gradient;
    entry.segment = port.segment;
    const StageInfo& stage = table().stage(port.stage);
    entry.peers = port.part < 0 ? stage.ranks : std::vector<Rank>{stage.ranks[port.part]};
    plan->ports.push_back(entry);
  }
}

void NodeModel::PlanUnits() {
  const NodeNet& net = any_net(true);
  bool in_backward = false;
  for (size_t s = 0; s < net.steps().size(); ++s) {
    const NetStep& step = net.steps()[s];
    if (!step.learns) continue;
    UnitPlan unit;
    unit.stage = node().stage;
    unit.segment = step.segment;
    unit.deferred = step.deferred;
    unit.in_backward = data_parallel() && !step.deferred;
    unit.exchanged = data_parallel() && table().replicas() > 1;
    in_backward |= unit.in_backward;
    plan_.units.push_back(unit);
    unit_steps_.push_back(static_cast<int>(s));
  }
  plan_.ordered_backward = in_backward;
  plan_.updates_together = !on_host();
  plan_.wait_for_verdict = options_.solver.clip_gradients() >= 0 || table().scales_loss();
  int64_t ids = static_cast<int64_t>(schedule_->TrainIds(0, plan_.replica).size());
  ids = std::max<int64_t>(ids, 1);
  const int64_t wanted = data_parallel() ? kConvPool : std::max(2 * table().replicas(), kConvPool);
  plan_.pool_size = node().pool_size > 0 ? node().pool_size : static_cast<int>(std::min(ids, wanted));
}

void NodeModel::FindWholeParams() {
  const NetGraph& graph = *train_.graph;
  for (int i = 0; i < static_cast<int>(graph.layers().size()); ++i) {
    const GraphLayer& layer = graph.layers()[i];
    if (layer.source) continue;
    std::vector<Shape> in;
    for (int bottom : layer.bottoms) in.push_back(train_.shapes[bottom]);
    const int stage = train_.placement->stage_of(i);
    const StageInfo& info = table().stage(stage);
    int blob = 0;
    for (const ParamSpec& spec : layer.traits.Params(in)) {
      WholeParam param;
      param.whole = {layer.traits.name(), blob++,          spec.shape, Block::Whole(spec.shape),
                     spec.lr_mult,        spec.decay_mult, true};
      const bool sliced = train_.placement->spread(layer.tops[0]) == Spread::kSlice;
      const int slices = sliced ? info.size() : 1;
      for (int part = 0; part < slices; ++part) {
        const Range rows = PartOf(spec.shape[0], part, slices);
        param.slices.push_back({info.ranks[part], Block::Rows(spec.shape, rows.begin, rows.end)});
      }
      whole_params_.push_back(param);
    }
  }
}

std::vector<StoredParam> NodeModel::stored_params() const {
  const NodeNet& net = any_net(true);
  std::set<int> fused;
  for (const NetStep& step : net.steps()) {
    if (updates_in_pieces(step)) fused.insert(step.params.begin(), step.params.end());
  }
  std::vector<StoredParam> params;
  for (int i = 0; i < static_cast<int>(net.params().size()); ++i) {
    const NodeParam& param = net.params()[i];
    params.push_back({param.layer, param.blob, param.spec.shape,
                      Block::Rows(param.spec.shape, param.begin_row, param.end_row), param.spec.lr_mult,
                      param.spec.decay_mult, !fused.contains(i)});
  }
  return params;
}

void NodeModel::FindOutputs(bool train, std::vector<WholeOutput>* outputs) {
  const PhaseModel& phase = train ? train_ : test_;
  std::map<int, int> seen;  // statistics of each stage so far, in the order in which NodeNet lists them
  for (const GraphLayer& layer : phase.graph->layers()) {
    if (!layer.traits.is_statistic()) continue;
    const int stage = table().StageOfLayers(*options_.net)->at(layer.order);
    const GraphBlob& blob = phase.graph->blobs()[layer.tops[0]];
    const int index = seen[stage]++;
    if (blob.consumers.empty()) outputs->push_back({blob.name, stage, layer.traits.loss_weight(0), index});
  }
}

}  // namespace hp

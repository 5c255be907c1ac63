// The plan is made in three layers, each a function of the one before: the graph of a phase's whole net (NetGraph),
// where its layers and blobs lie on the table's stages (Placement), and for each node what it runs of that (NodePlan).
// What concerns all nodes, such as owners of parameters and readers of labels, follows from graph and placement alone.
// A node plans all others along with itself: it is cheap, since no op is made and no memory allocated, and saves every
// message that would otherwise tell a peer what to expect.
#include "scheduler/plan/job_plan.h"

#include "net/plan/cuts.h"
#include "net/plan/own_blobs.h"
#include "net/plan/shared_params.h"
#include "proto/place.h"
#include "proto/solver_type.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/test_params.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

namespace hp {
namespace {

StatusOr<StageLayout> LayoutOf(const RoutingTable& table, const caffe::NetParameter& net) {
  StageLayout layout;
  for (const StageInfo& stage : table.stages()) {
    layout.stages.push_back({stage.conv, stage.ranks, stage.scattered, stage.conv && stage.served >= 0, stage.name});
  }
  HP_ASSIGN_OR_RETURN(layout.stage_of_layer, table.StageOfLayers(net));
  layout.split_of_layer = table.SplitOfLayers(net);
  layout.wire = table.wire();
  return layout;
}

/// Samples are counted through all of a training or a test, and parts of a batch found by products: each in 62 bits.
Status CheckCounts(const JobShape& shape) {
  constexpr __int128 kMost = __int128{1} << 62;
  const auto check = [](const char* what, int64_t batches, int64_t batch) {
    if (__int128{batches} * batch < kMost) return OkStatus();
    return InvalidArgument("%s has %lld batches of %lld samples; expected less than 2^62 samples in all", what,
                           static_cast<long long>(batches), static_cast<long long>(batch));
  };
  const int64_t parts = shape.all_shares() * shape.micro_batches;
  if (parts * __int128{shape.largest_batch()} >= kMost) {
    return InvalidArgument("%d replicas x %d micro-batches of %lld samples; expected a product of less than 2^62",
                           shape.replicas, shape.micro_batches, static_cast<long long>(shape.largest_batch()));
  }
  HP_RETURN_IF_ERROR(check("the training (max_iter x iter_size)", shape.max_iter * shape.iter_size, shape.train_batch));
  for (const TestShape& test : shape.tests) {
    HP_RETURN_IF_ERROR(check("a test (test_iter)", test.batches, test.batch));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<JobPlan>> JobPlan::Create(const Options& options) {
  std::unique_ptr<JobPlan> plan(new JobPlan(options));
  HP_ASSIGN_OR_RETURN(const StageLayout layout, LayoutOf(*options.table, *options.net));
  for (const Phase phase : plan->phases())
    HP_RETURN_IF_ERROR(AtLayer(plan->MakeGraph(phase, layout), *options.net, phase));
  HP_RETURN_IF_ERROR(plan->MakeSchedule());
  HP_RETURN_IF_ERROR(AtLayer(plan->CheckSamples(), *options.net, caffe::TRAIN));
  plan->FindVariants();
  for (const Phase phase : plan->phases()) {
    HP_RETURN_IF_ERROR(AtLayer(plan->PlanPhase(phase, layout), *options.net, phase));
    if (!phase.train()) HP_RETURN_IF_ERROR(plan->CheckBlocks(phase));
  }
  plan->FindReporter();
  plan->FindParams();
  return plan;
}

JobPlan::JobPlan(const Options& options)
    : options_(options), all_(PhasesWith(options.solver.test_iter_size())), phases_(all_.size()) {
  for (size_t i = 0; i < std::min(phases_.size(), options.samples.size()); ++i) phases_[i].sample = options.samples[i];
}

Status JobPlan::MakeGraph(Phase phase, const StageLayout& layout) {
  PhaseParts& parts = phases_[phase.index()];
  HP_ASSIGN_OR_RETURN(const GraphCuts cuts, FindCuts(options_.net, phase, *options_.types, parts.sample, layout));
  HP_ASSIGN_OR_RETURN(parts.graph, NetGraph::Create(options_.net, phase, *options_.types, cuts));
  if (!phase.train()) parts.graph->ShareAs(*train().graph);
  return OkStatus();
}

Status JobPlan::MakeSchedule() {
  const caffe::SolverParameter& solver = options_.solver;
  JobShape shape;
  shape.replicas = table().replicas();
  shape.shares = table().shares();
  shape.micro_batches = table().micro_batches();
  shape.train_batch = table().TrainingBatch(train().graph->batch_size());
  shape.iter_size = solver.iter_size();
  shape.max_iter = solver.max_iter();
  for (int test = 0; test < solver.test_iter_size(); ++test) {
    shape.tests.push_back({solver.test_iter(test), graph(Phase::OfTest(test)).batch_size()});
  }
  if (tests()) {
    shape.test_interval = solver.test_interval();
    // A job without updates ends where it begins, and Caffe's test at the end always comes.
    shape.test_initialization = solver.test_initialization() || solver.max_iter() == 0;
    shape.restart_tests = solver.restart_tests();
  }
  HP_RETURN_IF_ERROR(CheckCounts(shape).Prepend(table().path()));
  const int least = shape.shares.empty() ? 1 : *std::min_element(shape.shares.begin(), shape.shares.end());
  if (shape.train_batch * least < shape.all_shares() * shape.micro_batches) {
    return InvalidArgument("%s: a batch of %lld samples can't be divided over %d replicas with %d micro-batches each",
                           table().path().c_str(), static_cast<long long>(shape.train_batch), shape.replicas,
                           shape.micro_batches);
  }
  schedule_ = std::make_unique<Schedule>(shape);
  return OkStatus();
}

Status JobPlan::PlanPhase(Phase phase, const StageLayout& layout) {
  PhaseParts& parts = phases_[phase.index()];
  const auto is_server = [this](Rank rank) { return table().stage(table().node(rank).parts[0].stage).server; };
  HP_ASSIGN_OR_RETURN(parts.shapes, parts.graph->Shapes(parts.sample, 1));
  if (phase.train()) {
    HP_RETURN_IF_ERROR(CheckOwnBlobs(*parts.graph, parts.shapes));
  } else {
    HP_RETURN_IF_ERROR(CheckTestParams(*train().graph, train().shapes, *parts.graph, parts.shapes));
  }
  HP_ASSIGN_OR_RETURN(Placement placement, Placement::Create(*parts.graph, parts.sample, layout));
  parts.placement = std::make_unique<Placement>(std::move(placement));
  parts.nodes.resize(variants_.size());
  for (const bool servers : {false, true}) {
    if (servers && phase.train()) HP_RETURN_IF_ERROR(CutServed());
    for (Rank rank = 0; rank < table().size(); ++rank) {
      if (is_server(rank) != servers) continue;
      for (const std::vector<StagePart>& variant : variants_[rank]) {
        HP_ASSIGN_OR_RETURN(NodePlan plan, PlanNode(phase, rank, variant));
        parts.nodes[rank].push_back(std::move(plan));
      }
    }
  }
  FindLabelReaders(&parts);
  FindOutputs(&parts);
  return OkStatus();
}

StatusOr<NodePlan> JobPlan::PlanNode(Phase phase, Rank rank, const std::vector<StagePart>& parts) const {
  const PhaseParts& whole = this->parts(phase);
  const StageInfo& stage = table().stage(parts[0].stage);
  // Deferred gradients would keep the rows of one update alone.
  const bool defers = phase.train() && table().staleness() == 0;
  NodePlan::Options options{parts, whole.sample, defers ? schedule_->update_rows() : 0};
  if (stage.server) options.served = PartOfServer(served(stage.served), table().node(rank).IndexIn(parts[0].stage));
  return NodePlan::Create(*whole.graph, *whole.placement, options);
}

// A test reads the parameters where training has them. It would not where a table places a layer of its own elsewhere
// than that of training with the same name, or where other layers around it divide it otherwise.
Status JobPlan::CheckBlocks(Phase test) const {
  using Key = std::pair<std::string_view, int>;
  const auto check = [&](Rank rank, const ParamPlan& param, const std::multimap<Key, const ParamPlan*>& trained) {
    const auto [begin, end] = trained.equal_range({param.layer, param.blob});
    if (std::any_of(begin, end, [&](const auto& its) { return its.second->block == param.block; })) return OkStatus();
    return InvalidArgument(
        "%s: layer \"%s\": in phase %s node \"%s\" needs a part of blob %d that it does not have in phase TRAIN; "
        "expected the layer in one stage, and divided alike, in both",
        table().path().c_str(), param.layer.c_str(), test.name().c_str(), table().node(rank).name.c_str(), param.blob);
  };
  for (Rank rank = 0; rank < table().size(); ++rank) {
    std::multimap<Key, const ParamPlan*> trained;
    for (const ParamPlan& param : node(rank, caffe::TRAIN).params())
      trained.emplace(Key(param.layer, param.blob), &param);
    for (int variant = 0; variant < variants(rank); ++variant) {
      for (const ParamPlan& param : node(rank, test, variant).params()) HP_RETURN_IF_ERROR(check(rank, param, trained));
    }
  }
  return OkStatus();
}

// A sample is drawn for one update at a time, and the norm of all values would be a pass over the classes that an
// update leaves alone.
Status JobPlan::CheckSamples() const {
  for (const GraphLayer& layer : train().graph->layers()) {
    if (layer.sampled_by < 0) continue;
    if (options_.solver.larc()) {
      return InvalidArgument("layer \"%s\": sample_rate below 1 does not go with the solver's larc: true",
                             layer.traits.name().c_str());
    }
    if (table().staleness() == 0) continue;
    return InvalidArgument(
        "%s: staleness is %d, and layer \"%s\" reads a sample of classes (sample_rate below 1); "
        "expected staleness: 0",
        table().path().c_str(), table().staleness(), layer.traits.name().c_str());
  }
  return OkStatus();
}

// From the training plans of the replicas, which are made before those of the servers.
Status JobPlan::CutServed() {
  for (int index = 0; index < static_cast<int>(table().stages().size()); ++index) {
    const StageInfo& stage = table().stage(index);
    if (!stage.conv || stage.served < 0) continue;
    const StageInfo& servers = table().stage(stage.served);
    std::vector<ServedParam>& served = served_[index];
    served = CutForServers(train().nodes[stage.ranks[0]][0], index, servers.size());
    for (const ServedParam& entry : served) {
      if (entry.param.sample_room == 0) continue;
      return InvalidArgument(
          "%s: layer \"%s\" has sample_rate below 1 in stage \"%s\", whose gradients go by parameter "
          "servers; expected it in a stage without them",
          table().path().c_str(), entry.param.layer.c_str(), stage.name.c_str());
    }
    if (served.empty()) {
      return InvalidArgument(
          "%s: stage \"%s\" has exchange: PARAMETER_SERVER and learns nothing; expected ALLREDUCE "
          "(hproute without --ps)",
          table().path().c_str(), stage.name.c_str());
    }
    for (int server = 0; server < servers.size(); ++server) {
      if (!PartOfServer(served, server).empty()) continue;
      return InvalidArgument(
          "%s: server %d of stage \"%s\" would have no parameter of stage \"%s\"; expected fewer "
          "than %d servers",
          table().path().c_str(), server, servers.name.c_str(), stage.name.c_str(), servers.size());
    }
  }
  return OkStatus();
}

const std::vector<ServedParam>& JobPlan::served(int stage) const {
  static const std::vector<ServedParam> kNone;
  const auto found = served_.find(stage);
  return found == served_.end() ? kNone : found->second;
}

void JobPlan::FindLabelReaders(PhaseParts* phase) {
  phase->label_numbers = LabelNumbersOf(*phase->graph, phase->sample);
  const auto& layers = phase->graph->layers();
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    if (!layers[i].reads_labels() && !layers[i].needs_batch_labels()) continue;
    const int index = phase->placement->stage_of(i);
    const StageInfo& stage = table().stage(index);
    for (int part = 0; part < stage.size(); ++part) {
      // Those that read the samples have the labels of their own rows.
      const bool reads = index == 0;
      const bool needs = reads ? layers[i].needs_batch_labels() : phase->placement->RunsOn(i, stage.conv ? 0 : part);
      if (needs) phase->label_readers.insert(stage.ranks[part]);
    }
  }
}

void JobPlan::FindOutputs(PhaseParts* phase) {
  std::map<int, int> seen;  // statistics of each stage so far, in the order in which its nodes list them
  for (int i = 0; i < static_cast<int>(phase->graph->layers().size()); ++i) {
    const GraphLayer& layer = phase->graph->layers()[i];
    if (!layer.is_statistic()) continue;
    const int stage = phase->placement->stage_of(i);
    const GraphBlob& blob = phase->graph->blobs()[layer.tops[0]];
    const int index = seen[stage]++;
    if (!blob.consumers.empty()) continue;
    phase->outputs.push_back({blob.name, stage, layer.traits.loss_weight(0), index, !blob.automatic && !blob.silenced});
  }
  std::stable_sort(phase->outputs.begin(), phase->outputs.end(),
                   [](const WholeOutput& a, const WholeOutput& b) { return a.blob < b.blob; });
}

std::set<int> JobPlan::ReportingStages(Phase phase) const {
  std::set<int> stages;
  for (const WholeOutput& output : outputs(phase)) stages.insert(output.stage);
  if (stages.empty() && phase == caffe::TRAIN) stages.insert(0);
  return stages;
}

// The first node of the last stage that has a loss or an accuracy.
void JobPlan::FindReporter() {
  int stage = 0;
  for (int i = 0; i < static_cast<int>(train().graph->layers().size()); ++i) {
    if (train().graph->layers()[i].is_statistic()) stage = std::max(stage, train().placement->stage_of(i));
  }
  reporter_ = table().rank_of(stage, 0);
}

void JobPlan::FindParams() {
  const auto& layers = train().graph->layers();
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    if (layers[i].source) continue;
    std::vector<Shape> in;
    for (int bottom : layers[i].bottoms) in.push_back(train().shapes[bottom]);
    const Placement& placement = *train().placement;
    const int stage = placement.stage_of(i);
    int blob = layers[i].first_blob();
    for (const ParamSpec& spec : layers[i].Params(in)) {
      ParamOwners param{layers[i].traits.name(), blob++, spec, {}, {}};
      if (const SharedParams::Param* const shared = train().graph->shared().Find(param.layer, param.blob)) {
        const SharedParams::Use& owner = shared->uses[0];
        if (owner.layer != param.layer || owner.blob != param.blob) continue;
        param.users = UsersOf(*train().graph, train().shapes, *shared);
      }
      const auto& served = this->served(stage);
      const auto by_servers = std::find_if(served.begin(), served.end(), [&](const ServedParam& entry) {
        return entry.param.layer == param.layer && entry.param.blob == param.blob;
      });
      if (by_servers != served.end()) {
        const std::vector<Rank>& servers = table().stage(table().stage(stage).served).ranks;
        for (const auto& slice : by_servers->slices) param.slices.push_back({servers[slice.server], slice.block});
        params_.push_back(std::move(param));
        continue;
      }
      for (int part = 0; part < placement.distinct_parts(stage); ++part) {
        const Block block = placement.BlockOn(i, part, spec);
        if (!block.empty()) param.slices.push_back({table().stage(stage).ranks[part], block});
      }
      params_.push_back(std::move(param));
    }
  }
}

int JobPlan::HistoriesOf(const ParamSpec& spec) const {
  return spec.has_histories() ? hp::HistoriesOf(options_.solver) : 0;
}

int64_t JobPlan::parameter_bytes() const {
  int64_t bytes = 0;
  for (const ParamOwners& param : params_) {
    bytes += param.spec.shape.count() * static_cast<int64_t>((1 + param.users.size()) * sizeof(float));
  }
  return bytes;
}

// The turns at which all the parts of a node that an id passes are the same set are one variant.
void JobPlan::FindVariants() {
  for (const NodeInfo& node : table().nodes()) {
    if (table().stage(node.parts[0].stage).server) {  // no id passes it
      variants_.push_back({node.parts});
      shares_.emplace_back(std::vector<int>{-1});
      continue;
    }
    int64_t turns = 1;
    for (const StagePart& part : node.parts) {
      const StageInfo& stage = table().stage(part.stage);
      if (stage.conv) turns = std::lcm(turns, int64_t{stage.size()});
    }
    std::vector<std::vector<StagePart>> variants = {node.parts};
    std::vector<int> of_turn;
    for (int64_t turn = 0; turn < turns; ++turn) {
      std::vector<StagePart> passed;
      for (const StagePart& part : node.parts) {
        const StageInfo& stage = table().stage(part.stage);
        if (!stage.conv || turn % stage.size() == part.index) passed.push_back(part);
      }
      const auto known = std::find(variants.begin(), variants.end(), passed);
      of_turn.push_back(passed.empty() ? -1 : static_cast<int>(known - variants.begin()));
      if (known == variants.end() && !passed.empty()) variants.push_back(passed);
    }
    variants_.push_back(std::move(variants));
    shares_.emplace_back(std::move(of_turn));
  }
}

}  // namespace hp

// A net is built in passes over its steps:
//   1. AddLayer, in the order of the layers: the layer's step, in front of it what brings its inputs into the form that
//      it reads (gather, dense), behind it an export or a scatter for each edge on which its output leaves.
//      Behind all of them what the caller wants to read (kept).
//   2. MarkBackward, backwards: which steps compute gradients, and which inputs receive one from which step.
//   3. AddSplits: where several steps send a gradient to one tensor, a split step adds them up.
//   4. SortBySegment: the order of execution.
//   5. AssignGradients, Defer, FindPortBuffers: buffers of gradients, of whole updates and of what crosses. LeaveRelus,
//      JoinGroups, LeaveRawImages: what ops do for their neighbours.
//   6. MakeUpdateOps, MemoryPlanner: ops over a whole update, and where each buffer lies.
// Values get their buffers in pass 1; a tensor that is the same memory as another one gets the other one's buffer.
#include "net/node_net_builder.h"

#include "base/range.h"
#include "layers/label_ops.h"
#include "layers/traits/broadcast_axes.h"
#include "net/class_blocks.h"
#include "net/memory_planner.h"

#include "glog/logging.h"

#include <algorithm>
#include <numeric>

namespace hp {

NodeNetBuilder::NodeNetBuilder(const NodePlan& plan, const NetContext& context, int64_t rows)
    : context_(context),
      net_(new NodeNet(plan, rows)),
      plan_(net_->plan_),
      graph_(plan_.graph()),
      placement_(plan_.placement()) {
  net_->backend_ = context.backend;
}

StatusOr<std::unique_ptr<NodeNet>> NodeNetBuilder::Build() {
  HP_ASSIGN_OR_RETURN(shapes_, graph_.Shapes(plan_.sample(), net_->rows_));
  HP_RETURN_IF_ERROR(FindKept());
  for (const LayerPlan& layer : plan_.layers()) HP_RETURN_IF_ERROR(AddLayer(layer));
  HP_RETURN_IF_ERROR(AddKept());
  MarkBackward();
  HP_RETURN_IF_ERROR(AddSplits());
  SortBySegment();
  AssignGradients();
  LeaveRelus();
  JoinGroups();
  LeaveRawImages();
  Defer();
  FindClears();
  FindPortBuffers();
  HP_RETURN_IF_ERROR(MakeUpdateOps());
  MemoryPlanner(net_.get()).Plan();
  return std::move(net_);
}

int NodeNetBuilder::AddBuffer(size_t bytes, NetBuffer::Kind kind) {
  net_->buffers_.push_back({kind, bytes, 0});
  return static_cast<int>(net_->buffers_.size()) - 1;
}

int NodeNetBuilder::AddTensor(const std::string& name, const TensorDesc& desc, int value, int available) {
  net_->tensors_.push_back({name, desc, value >= 0 ? value : AddBuffer(desc.bytes()), -1});
  available_.push_back(available);
  return static_cast<int>(net_->tensors_.size()) - 1;
}

void NodeNetBuilder::AddStep(NetStep step, StepInfo info) {
  info.wants.resize(step.in.size(), true);
  net_->steps_.push_back(std::move(step));
  info_.push_back(std::move(info));
}

Status NodeNetBuilder::AddLayer(const LayerPlan& plan) {
  const int layer = plan.layer;
  const GraphLayer& entry = graph_.layers()[layer];
  if (entry.source) {
    AddSource(plan);
    for (int top : entry.tops) HP_RETURN_IF_ERROR(AddExports(top));
    return OkStatus();
  }
  // What follows from the numbers of all shards comes behind the exchange, as ever.
  if (plan.class_block > 0 && context_.backend->has_sampled_products() && entry.piece != GraphLayer::kMerged) {
    if (entry.traits.sample_rate() < 1) HP_RETURN_IF_ERROR(AddBlocks(plan));
    for (int top : entry.tops) HP_RETURN_IF_ERROR(AddExports(top));
    return OkStatus();
  }
  HP_ASSIGN_OR_RETURN(const std::vector<Input> inputs, Inputs(layer));
  NetStep step;
  step.name = entry.name();
  step.layer = &entry.traits;
  step.layer_index = layer;
  step.segment = plan.segment;
  std::vector<TensorDesc> descs;
  StepInfo info;
  for (const auto& [tensor, blob, bottom] : inputs) {
    step.in.push_back(tensor);
    info.wants.push_back(graph_.blobs()[blob].needs_gradient && entry.propagates(bottom) && !plan.only_gathers);
    descs.push_back(net_->tensors_[tensor].desc);
    CHECK_LE(available_[tensor], plan.segment) << step.name;
  }
  if (IsScaledNorm(layer)) {
    step.in.push_back(moments_.at(entry.bottoms[0]));
    info.wants.push_back(false);
    descs.push_back(net_->tensors_[step.in.back()].desc);
  }
  HP_ASSIGN_OR_RETURN(step.op, MakeOp(plan, descs));
  step.params = plan_.params_of(layer);
  step.learns = plan.learns;
  step.shares = plan.shares;
  step.in_backward = plan.in_backward;
  step.part = plan_.FindPart(placement_.stage_of(layer));
  step.sample = entry.sampled_by;

  info.plan = &plan;
  const bool view = entry.traits.is_view() && descs[0].dense(), moments = TakesMoments(layer);
  // An op may want more memory for its output than the input has: of another element type.
  const bool in_place = entry.in_place && step.op->outputs()[0].bytes() == descs[0].bytes();
  info.in_place = moments || (in_place && MayOverwrite(plan, step)) || view;
  // A parameter's gradient may be computed after that of the input, from the same gradient of the output.
  info.gradient_in_place = moments || (in_place && !plan.learns) || view;
  step.forward = !view;
  for (size_t i = 0; i < entry.tops.size(); ++i) {
    const TensorDesc& desc = step.op->outputs()[i];
    const int value = info.in_place && i == 0 ? net_->tensors_[step.in[0]].value : -1;
    const int tensor = AddTensor(graph_.blobs()[entry.tops[i]].name, desc, value, step.segment);
    local_[entry.tops[i]] = tensor;
    step.out.push_back(tensor);
    if (i == 0) AddOutput(entry, tensor, step.segment);
  }
  if (moments) {
    step.out.push_back(AddTensor(step.name + ".moments", step.op->outputs()[1], -1, step.segment));
    moments_[entry.tops[0]] = step.out.back();
  }
  AddStep(std::move(step), std::move(info));
  for (int top : entry.tops) HP_RETURN_IF_ERROR(AddExports(top));
  return OkStatus();
}

bool NodeNetBuilder::TakesMoments(int layer) const {
  const GraphLayer& norm = graph_.layers()[layer];
  if (norm.source || norm.of_no_layer() || norm.traits.type() != "BatchNorm" || !context_.backend->has_moments())
    return false;
  const GraphBlob& top = graph_.blobs()[norm.tops[0]];
  if (top.consumers.size() != 1 || IsKept(norm.tops[0])) return false;
  const GraphLayer& reader = graph_.layers()[top.consumers[0]];
  if (reader.of_no_layer() || reader.traits.type() != "Scale" || reader.bottoms.size() != 1) return false;
  if (!placement_.ReadsLocally(top.consumers[0], norm.tops[0])) return false;
  const StatusOr<BroadcastAxes> axes = ScaleAxes(*reader.param, {shapes_[norm.tops[0]]});
  return axes.ok() && axes->begin == 1 && axes->end == 2;
}

bool NodeNetBuilder::IsScaledNorm(int layer) const {
  const GraphLayer& scale = graph_.layers()[layer];
  if (scale.of_no_layer() || scale.traits.type() != "Scale" || scale.bottoms.size() != 1) return false;
  return TakesMoments(graph_.blobs()[scale.bottoms[0]].producer);
}

// Whether input 0 of a layer's step may be overwritten: nobody else reads it, under this name or as a view, and no
// backward pass reads it, this step's own or that of a step that left it there.
bool NodeNetBuilder::MayOverwrite(const LayerPlan& plan, const NetStep& step) const {
  if (plan.backward && step.op->backward_reads_input()) return false;
  const GraphLayer* reader = &graph_.layers()[plan.layer];
  int producer = 0;
  do {
    const GraphBlob& bottom = graph_.blobs()[reader->bottoms[0]];
    if (bottom.consumers.size() > 1 || IsKept(reader->bottoms[0])) return false;
    producer = bottom.producer;
    reader = &graph_.layers()[producer];
  } while (!reader->source && (reader->traits.is_view() || TakesMoments(producer)));
  const int memory = net_->tensors_[step.in[0]].value;
  for (size_t s = 0; s < net_->steps_.size(); ++s) {
    const NetStep& other = net_->steps_[s];
    if (info_[s].plan == nullptr || !info_[s].plan->backward || !other.op->backward_reads_output()) continue;
    for (int out : other.out) {
      if (net_->tensors_[out].value == memory) return false;
    }
  }
  return true;
}

// What several shards compute alike is reported by the first.
void NodeNetBuilder::AddOutput(const GraphLayer& entry, int tensor, int segment) {
  const GraphBlob& top = graph_.blobs()[entry.tops[0]];
  const int stage = placement_.stage_of(top.producer);
  if (!entry.is_statistic() || plan_.distinct_part(stage) != 0) return;
  net_->outputs_.push_back({top.name, entry.name(), stage, tensor, segment, entry.traits.loss_weight(0),
                            top.consumers.empty() && !top.silenced && !top.automatic});
}

// One step in the place of a layer whose classes are too many for one piece of memory, and of all that reads them.
Status NodeNetBuilder::AddBlocks(const LayerPlan& plan) {
  const GraphLayer& entry = graph_.layers()[plan.layer];
  const int classes = entry.tops[0];
  HP_ASSIGN_OR_RETURN(const std::vector<Input> inputs, Inputs(plan.layer));
  NetStep step;
  step.name = entry.name();
  step.layer = &entry.traits;
  step.layer_index = plan.layer;
  step.segment = plan.segment;
  step.params = plan_.params_of(plan.layer);
  step.part = plan_.FindPart(placement_.stage_of(plan.layer));
  std::vector<TensorDesc> in;
  for (const Input& input : inputs) {
    step.in.push_back(input.tensor);
    in.push_back(net_->tensors_[input.tensor].desc);
  }
  std::vector<ClassReader> readers;
  std::vector<int> tops;
  for (int layer : graph_.blobs()[classes].consumers) {
    const GraphLayer& reader = graph_.layers()[layer];
    if (reader.piece == GraphLayer::kMerged) continue;
    CHECK_EQ(plan_.FindLayer(layer)->segment, plan.segment) << reader.name();
    readers.push_back({&reader.traits, reader.piece == GraphLayer::kClasses});
    tops.push_back(reader.tops[0]);
  }
  OpContext context = ContextOf(plan);
  context.sample_room = plan.class_block;
  HP_ASSIGN_OR_RETURN(step.op, MakeClassBlocks({*context_.ops, context, entry.traits, readers, in}));
  for (size_t i = 0; i < tops.size(); ++i) {
    const GraphBlob& top = graph_.blobs()[tops[i]];
    step.out.push_back(AddTensor(top.name, step.op->outputs()[i], -1, plan.segment));
    local_[tops[i]] = step.out.back();
    AddOutput(graph_.layers()[top.producer], step.out.back(), plan.segment);
  }
  const TensorDesc desc{Shape{net_->rows_, plan.channels.size()}, 1};
  local_[classes] = AddTensor(entry.name(), desc, AddBuffer(0, NetBuffer::kNowhere), plan.segment);
  AddStep(std::move(step), {.plan = &plan});
  return OkStatus();
}

StatusOr<std::unique_ptr<Op>> NodeNetBuilder::MakeOp(const LayerPlan& plan, const std::vector<TensorDesc>& in) {
  const GraphLayer& entry = graph_.layers()[plan.layer];
  if (entry.piece == GraphLayer::kSum) return context_.backend->Sum(!plan_.params_of(plan.layer).empty(), in);
  if (entry.piece == GraphLayer::kLabels) {
    const TensorDesc labels{shapes_[entry.bottoms[0]], 1};
    HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> copy, context_.backend->Split(1, {labels}));
    return LabelsToTensor(std::move(copy), labels);
  }
  std::vector<TensorDesc> others = in;
  if (entry.tensor_labels) others.erase(others.begin() + static_cast<ptrdiff_t>(entry.label_bottom()));
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, context_.ops->Create(entry.traits, ContextOf(plan), others));
  if (entry.tensor_labels) op = LabelsFromTensor(std::move(op), entry.label_bottom());
  if (entry.label_number > 0) op = WithBatchLabels(std::move(op), entry.label_number);
  return op;
}

void NodeNetBuilder::AddSource(const LayerPlan& plan) {
  for (const int top : graph_.layers()[plan.layer].tops) {
    const GraphBlob& blob = graph_.blobs()[top];
    if (blob.label) continue;
    const TensorDesc desc{shapes_[top], 1};
    const int buffer = AddBuffer(desc.bytes(), NetBuffer::kImages);
    if (blob.of_sample > 0) {
      const int64_t begin = plan_.sample().OtherAt(blob.of_sample - 1, net_->rows_);
      net_->buffers_[buffer].offset = begin * sizeof(float);
    }
    local_[top] = AddTensor(blob.name, desc, buffer, plan.segment);
  }
}

OpContext NodeNetBuilder::ContextOf(const LayerPlan& layer) const {
  const GraphLayer& entry = graph_.layers()[layer.layer];
  OpContext context;
  context.backend = context_.backend;
  context.seed = context_.seed;
  context.input_gradient = false;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const bool wanted = graph_.blobs()[entry.bottoms[i]].needs_gradient && entry.propagates(i);
    context.input_gradient |= wanted && layer.backward;
  }
  context.channel_begin = layer.channels.begin;
  context.channel_end = layer.channels.end;
  context.channel_count = shapes_[plan_.ChannelsOf(layer.layer)].dim(1);
  context.sample_room = layer.sample_room;
  if (entry.traits.average_keeps()) {
    const ParamSpec average = entry.Params({shapes_[entry.bottoms[0]]})[0];
    context.average_keeps = average.average_keeps;
    context.average_share = average.average_share;
  }
  if (entry.piece == GraphLayer::kProduct) context.part = OpContext::kAddends;
  if (entry.piece == GraphLayer::kClasses) context.part = OpContext::kClasses;
  if (entry.piece == GraphLayer::kMerged) context.part = OpContext::kMerged;
  if (TakesMoments(layer.layer)) context.part = OpContext::kMoments;
  if (IsScaledNorm(layer.layer)) context.part = OpContext::kScaled;
  return context;
}

bool NodeNetBuilder::ComparesShapes(const GraphLayer& layer) const {
  if (!layer.traits.pairs_elements() || layer.label_targets) return false;
  return plan_.sample_shape(layer.bottoms[0]) != plan_.sample_shape(layer.bottoms[1]);
}

StatusOr<std::vector<NodeNetBuilder::Input>> NodeNetBuilder::Inputs(int layer) {
  const GraphLayer& entry = graph_.layers()[layer];
  const ChannelUse use = entry.channel_use();
  const bool product = use == ChannelUse::kSplitOutput || use == ChannelUse::kSplitInput;
  const bool in_pieces = product || use == ChannelUse::kSum || entry.piece == GraphLayer::kMerged;
  std::vector<Input> in;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const int blob = entry.bottoms[i];
    if (entry.is_label(i)) continue;
    if (placement_.ReadsLocally(layer, blob)) {
      int tensor = local_.at(blob);
      if (product || ComparesShapes(entry)) {
        HP_ASSIGN_OR_RETURN(tensor, Dense(tensor));
      } else if (entry.tensor_labels && i == entry.label_bottom()) {
        HP_ASSIGN_OR_RETURN(tensor, Plain(tensor));
      }
      in.push_back({tensor, blob, i});
      continue;
    }
    const int edge = placement_.EdgeOf(layer, blob);
    if (in_pieces) {
      HP_ASSIGN_OR_RETURN(const std::vector<int> parts, Gather(edge));
      for (int part : parts) in.push_back({part, blob, i});
    } else {
      HP_ASSIGN_OR_RETURN(const int whole, GatherWhole(edge));
      in.push_back({whole, blob, i});
    }
  }
  return in;
}

// Execution order: by segment, within it the order of the layers. A split goes right before its first reader, which
// puts it behind its last reader on the way back.
void NodeNetBuilder::SortBySegment() {
  auto& steps = net_->steps_;
  std::vector<std::pair<int, double>> key(steps.size());
  for (size_t s = 0; s < steps.size(); ++s) key[s] = {steps[s].segment, static_cast<double>(s)};
  for (size_t s = 0; s < steps.size(); ++s) {
    if (info_[s].kind != StepInfo::kSplit) continue;
    double first = 1e9;
    for (size_t u = 0; u < steps.size(); ++u) {
      for (int tensor : steps[u].in) {
        if (std::count(steps[s].out.begin(), steps[s].out.end(), tensor) > 0) first = std::min<double>(first, u);
      }
    }
    key[s].second = first - 0.5;
  }
  std::vector<int> order(steps.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key[a] < key[b]; });
  std::vector<NetStep> sorted_steps;
  std::vector<StepInfo> sorted_info;
  for (int s : order) {
    sorted_steps.push_back(std::move(steps[s]));
    sorted_info.push_back(std::move(info_[s]));
  }
  steps = std::move(sorted_steps);
  info_ = std::move(sorted_info);
}

void NodeNetBuilder::FindPortBuffers() {
  for (const PortPlan& port : plan_.ports()) {
    const int buffer = PortBuffer(port);
    CHECK_GE(buffer, 0) << "channel " << port.channel << " of \""
                        << graph_.blobs()[placement_.edges()[port.edge].blob].name << "\" has no buffer";
    CHECK_EQ(static_cast<int64_t>(net_->buffers_[buffer].bytes), port.row_bytes * net_->rows_)
        << "channel " << port.channel;
    net_->port_buffers_.push_back(buffer);
  }
}

Status NodeNetBuilder::MakeUpdateOps() {
  for (size_t s = 0; s < net_->steps_.size(); ++s) {
    NetStep& step = net_->steps_[s];
    if (!step.deferred) continue;
    std::vector<TensorDesc> descs;
    for (int tensor : step.in) {
      TensorDesc desc = net_->tensors_[tensor].desc;
      desc.shape = desc.shape.With(0, plan_.update_rows());
      descs.push_back(desc);
    }
    HP_ASSIGN_OR_RETURN(step.update_op, context_.ops->Create(*step.layer, ContextOf(*info_[s].plan), descs));
  }
  return OkStatus();
}

}  // namespace hp

#include "net/node_net_builder.h"

#include "base/range.h"
#include "net/memory_planner.h"

#include "glog/logging.h"

#include <algorithm>
#include <numeric>

namespace hp {

NodeNetBuilder::NodeNetBuilder(const NetGraph& graph, const Placement& placement, const NodeRole& role, int64_t rows)
    : graph_(graph), placement_(placement), role_(role), net_(new NodeNet) {
  net_->rows_ = rows;
  net_->update_rows_ = role.update_rows;
}

bool NodeNetBuilder::IsMine(int layer) const {
  return placement_.stage_of(layer) == role_.stage && placement_.RunsOn(layer, distinct_part());
}

int NodeNetBuilder::distinct_part() const {
  return placement_.layout().stages[role_.stage].data_parallel ? 0 : role_.part;
}

StatusOr<std::unique_ptr<NodeNet>> NodeNetBuilder::Build() {
  HP_ASSIGN_OR_RETURN(shapes_, graph_.Shapes(role_.sample_shape, net_->rows_));
  for (int layer = 0; layer < static_cast<int>(graph_.layers().size()); ++layer) {
    if (IsMine(layer)) HP_RETURN_IF_ERROR(AddLayer(layer));
  }
  MarkBackward();
  HP_RETURN_IF_ERROR(AddSplits());
  SortBySegment();
  AssignGradients();
  Defer();
  AddPorts();
  HP_RETURN_IF_ERROR(MakeUpdateOps());
  MemoryPlanner(net_.get(), placement_.layout().stages[role_.stage].data_parallel).Plan();
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

Status NodeNetBuilder::AddLayer(int layer) {
  const GraphLayer& entry = graph_.layers()[layer];
  if (entry.source) {
    AddSource(layer);
    return AddExports(entry.tops[0]);
  }
  HP_ASSIGN_OR_RETURN(std::vector<int> in, Inputs(layer));
  NetStep step;
  step.name = entry.traits.name();
  step.layer = &entry.traits;
  step.in = in;
  std::vector<TensorDesc> descs;
  for (int tensor : in) {
    descs.push_back(net_->tensors_[tensor].desc);
    step.segment = std::max(step.segment, available_[tensor]);
  }
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, role_.ops->Create(entry.traits, ContextOf(layer), descs));
  step.op = std::move(op);
  AddParams(layer, &step);

  StepInfo info;
  const bool view = entry.traits.is_view() && descs[0].dense();
  // An op may want more memory for its output than the input has: of another element type.
  info.in_place = (entry.in_place && step.op->outputs()[0].bytes() == descs[0].bytes()) || view;
  step.forward = !view;
  for (size_t i = 0; i < entry.tops.size(); ++i) {
    const TensorDesc& desc = step.op->outputs()[i];
    const int value = info.in_place && i == 0 ? net_->tensors_[in[0]].value : -1;
    const int tensor = AddTensor(graph_.blobs()[entry.tops[i]].name, desc, value, step.segment);
    local_[entry.tops[i]] = tensor;
    step.out.push_back(tensor);
    if (entry.traits.is_statistic() && i == 0) {
      net_->outputs_.push_back({graph_.blobs()[entry.tops[i]].name, step.name, tensor, step.segment,
                                entry.traits.loss_weight(0), graph_.blobs()[entry.tops[i]].consumers.empty()});
    }
  }
  for (size_t i = 0; i < in.size(); ++i) {
    // The parts of a gathered bottom share its blob; every other bottom is one tensor.
    const size_t bottom = in.size() > entry.bottoms.size() ? 0 : i;
    info.wants.push_back(graph_.blobs()[entry.bottoms[bottom]].needs_gradient);
  }
  AddStep(std::move(step), std::move(info));
  for (int top : entry.tops) HP_RETURN_IF_ERROR(AddExports(top));
  return OkStatus();
}

void NodeNetBuilder::AddSource(int layer) {
  const int top = graph_.layers()[layer].tops[0];
  const TensorDesc desc{shapes_[top], 1};
  local_[top] = AddTensor(graph_.blobs()[top].name, desc, AddBuffer(desc.bytes(), NetBuffer::kImages), 0);
  net_->reads_images_ = true;
}

int NodeNetBuilder::OutputChannels(int layer) const {
  return static_cast<int>(shapes_[graph_.layers()[layer].tops[0]].dim(1));
}

OpContext NodeNetBuilder::ContextOf(int layer) const {
  const GraphLayer& entry = graph_.layers()[layer];
  OpContext context;
  context.backend = role_.backend;
  context.seed = role_.seed;
  context.input_gradient = false;
  for (int bottom : entry.bottoms) {
    context.input_gradient |=
        graph_.blobs()[bottom].needs_gradient && placement_.Backpropagates(layer, distinct_part());
  }
  const int64_t channels = OutputChannels(layer);
  context.channel_count = context.channel_end = channels;
  if (placement_.spread(entry.tops[0]) == Spread::kSlice) {
    const Range mine = PartOf(channels, role_.part, placement_.layout().stages[role_.stage].parts);
    context.channel_begin = mine.begin;
    context.channel_end = mine.end;
  }
  return context;
}

void NodeNetBuilder::AddParams(int layer, NetStep* step) {
  const GraphLayer& entry = graph_.layers()[layer];
  std::vector<Shape> in;
  for (int bottom : entry.bottoms) in.push_back(shapes_[bottom]);
  const OpContext context = ContextOf(layer);
  int blob = 0;
  for (const ParamSpec& spec : entry.traits.Params(in)) {
    NodeParam param{entry.traits.name(), blob++, spec, 0, spec.shape[0]};
    if (placement_.spread(entry.tops[0]) == Spread::kSlice) {
      param.begin_row = context.channel_begin;
      param.end_row = context.channel_end;
    }
    step->params.push_back(static_cast<int>(net_->params_.size()));
    net_->params_.push_back(param);
  }
  step->learns = entry.learns && placement_.Backpropagates(layer, distinct_part());
}

StatusOr<std::vector<int>> NodeNetBuilder::Inputs(int layer) {
  const GraphLayer& entry = graph_.layers()[layer];
  const bool product = entry.traits.channel_use() == ChannelUse::kSplitOutput;
  std::vector<int> in;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const int blob = entry.bottoms[i];
    if (entry.traits.reads_labels() && i == 1) continue;
    if (placement_.ReadsLocally(layer, blob)) {
      int tensor = local_.at(blob);
      if (product) {
        HP_ASSIGN_OR_RETURN(tensor, Dense(tensor));
      }
      in.push_back(tensor);
      continue;
    }
    const int edge = placement_.FindEdge(blob, role_.stage);
    if (product) {
      HP_ASSIGN_OR_RETURN(std::vector<int> parts, Gather(edge));
      in.insert(in.end(), parts.begin(), parts.end());
    } else {
      HP_ASSIGN_OR_RETURN(const int whole, GatherWhole(edge));
      in.push_back(whole);
    }
  }
  return in;
}

StatusOr<std::vector<int>> NodeNetBuilder::Gather(int edge_index) {
  if (auto found = gathered_.find(edge_index); found != gathered_.end()) return found->second;
  const Edge& edge = placement_.edges()[edge_index];
  const Shape& shape = shapes_[edge.blob];
  const int available = edge.within_stage() ? available_[exported_.at(edge_index)] + 1 : 0;
  std::vector<int> parts;
  for (int part = 0; part < edge.parts; ++part) {
    const Shape part_shape = edge.parts > 1 ? shape.With(1, PartOf(shape.dim(1), part, edge.parts).size()) : shape;
    const std::string name = graph_.blobs()[edge.blob].name + "[" + std::to_string(part) + "]";
    if (edge.within_stage() && part == role_.part) {
      const int source = exported_.at(edge_index);
      parts.push_back(AddTensor(name, {part_shape, 1}, net_->tensors_[source].value, available));
      for (size_t s = 0; s < info_.size(); ++s) {
        if (info_[s].kind == StepInfo::kExport && info_[s].edge == edge_index)
          net_->steps_[s].out.push_back(parts.back());
      }
    } else {
      parts.push_back(AddTensor(name, {part_shape, 1}, -1, available));
      landings_.push_back({edge_index, part, parts.back()});
    }
  }
  gathered_[edge_index] = parts;
  return parts;
}

StatusOr<int> NodeNetBuilder::GatherWhole(int edge) {
  if (auto found = whole_.find(edge); found != whole_.end()) return found->second;
  HP_ASSIGN_OR_RETURN(std::vector<int> parts, Gather(edge));
  if (parts.size() == 1) return whole_[edge] = parts[0];
  NetStep step;
  step.name = "gather " + graph_.blobs()[placement_.edges()[edge].blob].name;
  step.in = parts;
  std::vector<TensorDesc> descs;
  for (int part : parts) {
    descs.push_back(net_->tensors_[part].desc);
    step.segment = std::max(step.segment, available_[part]);
  }
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, role_.backend->Concat(1, descs));
  step.op = std::move(op);
  const int out = AddTensor(step.name, step.op->outputs()[0], -1, step.segment);
  step.out = {out};
  AddStep(std::move(step), {.kind = StepInfo::kConcat});
  return whole_[edge] = out;
}

StatusOr<int> NodeNetBuilder::Dense(int tensor) {
  if (net_->tensors_[tensor].desc.dense()) return tensor;
  if (auto found = dense_.find(tensor); found != dense_.end()) return found->second;
  NetStep step;
  step.name = "dense " + net_->tensors_[tensor].name;
  step.in = {tensor};
  step.segment = available_[tensor];
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, role_.backend->Export(1, {net_->tensors_[tensor].desc}));
  step.op = std::move(op);
  const int out = AddTensor(step.name, {net_->tensors_[tensor].desc.shape, 1}, -1, step.segment);
  step.out = {out};
  AddStep(std::move(step), {.kind = StepInfo::kDense});
  return dense_[tensor] = out;
}

// Where a blob leaves this node, an export step stands: it makes the tensor dense and float32 (nothing to do if it is)
// and, on the way back, adds up the gradients of all readers in the order of their ranks.
Status NodeNetBuilder::AddExports(int blob) {
  for (int e = 0; e < static_cast<int>(placement_.edges().size()); ++e) {
    const Edge& edge = placement_.edges()[e];
    const bool writes = edge.blob == blob && edge.from_stage == role_.stage && (edge.parts > 1 || distinct_part() == 0);
    if (!writes || !local_.contains(blob)) continue;
    const int source = local_.at(blob);
    const TensorDesc desc = net_->tensors_[source].desc;
    StepInfo info{.kind = StepInfo::kExport, .edge = e};
    for (int reader = 0; reader < edge.readers; ++reader) {
      if (edge.reader_gradient[reader]) info.gradient_readers.push_back(reader);
    }
    NetStep step;
    step.name = "export " + graph_.blobs()[blob].name;
    step.in = {source};
    step.segment = available_[source];
    const int readers = std::max<int>(1, static_cast<int>(info.gradient_readers.size()));
    HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, role_.backend->Export(readers, {desc}));
    step.op = std::move(op);
    step.forward = !desc.plain();
    const int value = desc.plain() ? net_->tensors_[source].value : -1;
    exported_[e] = AddTensor(step.name, {desc.shape, 1}, value, step.segment);
    step.out = {exported_[e]};
    AddStep(std::move(step), std::move(info));
  }
  return OkStatus();
}

// A layer's step computes gradients if the placement says so; our own steps do if a reader of their output does.
void NodeNetBuilder::MarkBackward() {
  auto& steps = net_->steps_;
  uses_.assign(net_->tensors_.size(), {});
  for (int s = static_cast<int>(steps.size()) - 1; s >= 0; --s) {
    NetStep& step = steps[s];
    StepInfo& info = info_[s];
    if (info.kind == StepInfo::kExport) {
      step.backward = !info.gradient_readers.empty();
    } else if (info.kind != StepInfo::kLayer) {
      step.backward = !uses_[step.out[0]].empty();
    } else {
      for (int layer = 0; layer < static_cast<int>(graph_.layers().size()); ++layer) {
        if (&graph_.layers()[layer].traits == step.layer) {
          step.backward = placement_.Backpropagates(layer, distinct_part());
        }
      }
    }
    for (size_t i = 0; i < step.in.size(); ++i) {
      info.wants[i] = info.wants[i] && step.backward;
      if (info.wants[i]) uses_[step.in[i]].push_back({s, static_cast<int>(i)});
    }
  }
}

Status NodeNetBuilder::AddSplits() {
  const int tensors = static_cast<int>(net_->tensors_.size());
  for (int t = 0; t < tensors; ++t) {
    if (uses_[t].size() < 2) continue;
    std::reverse(uses_[t].begin(), uses_[t].end());  // in the order of the layers
    const TensorDesc desc = net_->tensors_[t].desc;
    NetStep step;
    step.name = "split " + net_->tensors_[t].name;
    step.in = {t};
    step.segment = available_[t];
    step.forward = false;  // the readers share the value
    step.backward = true;
    HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, role_.backend->Split(static_cast<int>(uses_[t].size()), {desc}));
    step.op = std::move(op);
    for (const auto& [user, input] : uses_[t]) {
      const int copy = AddTensor(step.name, desc, net_->tensors_[t].value, available_[t]);
      step.out.push_back(copy);
      net_->steps_[user].in[input] = copy;
      uses_.push_back({{user, input}});
    }
    uses_[t] = {{static_cast<int>(net_->steps_.size()), 0}};
    AddStep(std::move(step), {.kind = StepInfo::kSplit});
  }
  return OkStatus();
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
  for (const NetStep& step : steps) net_->segments_ = std::max(net_->segments_, step.segment + 1);
}

void NodeNetBuilder::AssignGradients() {
  auto& tensors = net_->tensors_;
  for (int s = static_cast<int>(net_->steps_.size()) - 1; s >= 0; --s) {
    NetStep& step = net_->steps_[s];
    StepInfo& info = info_[s];
    const TensorDesc& in_desc = tensors[step.in[0]].desc;
    bool alias = info.in_place;
    if (info.kind == StepInfo::kExport) {
      // Gradients come from readers, not from consumers on this node; our own reader's is its tensor's.
      const Edge& edge = placement_.edges()[info.edge];
      for (int reader : info.gradient_readers) {
        const bool self = edge.within_stage() && reader == role_.part;
        step.out_gradient.push_back(self ? tensors[step.out[1]].gradient
                                         : AddBuffer(tensors[step.out[0]].desc.bytes()));
      }
      alias = in_desc.plain() && info.gradient_readers.size() == 1;
    } else {
      for (int out : step.out) step.out_gradient.push_back(tensors[out].gradient);
    }
    for (size_t i = 0; i < step.in.size(); ++i) {
      if (!info.wants[i]) {
        step.in_gradient.push_back(-1);
        continue;
      }
      const int buffer = alias && i == 0 && step.out_gradient[0] >= 0 ? step.out_gradient[0]
                                                                      : AddBuffer(tensors[step.in[i]].desc.bytes());
      tensors[step.in[i]].gradient = buffer;
      step.in_gradient.push_back(buffer);
    }
    const bool view = alias && (info.kind == StepInfo::kExport || !step.forward);
    if (view) step.backward = false;
  }
}

// Rule of deferral: the rows to keep (inputs and output gradients of a whole update) take less memory than the
// gradient.
void NodeNetBuilder::Defer() {
  if (role_.update_rows == 0) return;
  for (NetStep& step : net_->steps_) {
    if (!step.learns || step.layer->channel_use() != ChannelUse::kSplitOutput) continue;
    int64_t inputs = 0;
    bool possible = true;
    for (int tensor : step.in) {
      inputs += net_->tensors_[tensor].desc.shape.count(1);
      possible &= net_->buffers_[net_->tensors_[tensor].value].kind != NetBuffer::kImages;
    }
    const int64_t outputs = net_->tensors_[step.out[0]].desc.shape.count(1);
    if (!possible || role_.update_rows * (inputs + outputs) >= inputs * outputs) continue;
    step.deferred = true;
    for (int tensor : step.in) net_->buffers_[net_->tensors_[tensor].value].kind = NetBuffer::kUpdateMatrix;
    net_->buffers_[step.out_gradient[0]].kind = NetBuffer::kUpdateMatrix;
  }
}

void NodeNetBuilder::AddPorts() {
  const auto& stages = placement_.layout().stages;
  for (size_t s = 0; s < net_->steps_.size(); ++s) {
    const StepInfo& info = info_[s];
    const NetStep& step = net_->steps_[s];
    if (info.kind != StepInfo::kExport) continue;
    const Edge& edge = placement_.edges()[info.edge];
    for (int reader = 0; reader < edge.readers; ++reader) {
      if (edge.within_stage() && reader == role_.part) continue;
      net_->ports_.push_back(
          {info.edge, false, false, edge.to_stage, reader, step.segment, net_->tensors_[step.out[0]].value});
    }
    for (size_t i = 0; i < info.gradient_readers.size(); ++i) {
      const int reader = info.gradient_readers[i];
      if (edge.within_stage() && reader == role_.part) continue;
      net_->ports_.push_back({info.edge, true, true, edge.to_stage, reader, step.segment, step.out_gradient[i]});
    }
  }
  for (const Landing& landing : landings_) {
    const Edge& edge = placement_.edges()[landing.edge];
    const int part = stages[edge.from_stage].data_parallel ? -1 : landing.part;
    int segment = net_->segments_;
    for (const NetStep& step : net_->steps_) {
      if (std::count(step.in.begin(), step.in.end(), landing.tensor) > 0) segment = std::min(segment, step.segment);
    }
    const NetTensor& tensor = net_->tensors_[landing.tensor];
    net_->ports_.push_back({landing.edge, false, true, edge.from_stage, part, segment, tensor.value});
    if (edge.reader_gradient[edge.readers > 1 ? role_.part : 0]) {
      CHECK_GE(tensor.gradient, 0) << tensor.name;
      net_->ports_.push_back({landing.edge, true, false, edge.from_stage, part, segment, tensor.gradient});
    }
  }
}

Status NodeNetBuilder::MakeUpdateOps() {
  for (NetStep& step : net_->steps_) {
    if (!step.deferred) continue;
    std::vector<TensorDesc> descs;
    for (int tensor : step.in) {
      TensorDesc desc = net_->tensors_[tensor].desc;
      desc.shape = desc.shape.With(0, role_.update_rows);
      descs.push_back(desc);
    }
    for (int layer = 0; layer < static_cast<int>(graph_.layers().size()); ++layer) {
      if (&graph_.layers()[layer].traits != step.layer) continue;
      HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, role_.ops->Create(*step.layer, ContextOf(layer), descs));
      step.update_op = std::move(op);
    }
  }
  return OkStatus();
}

}  // namespace hp

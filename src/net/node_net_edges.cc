// The part of NodeNetBuilder that concerns edges: what stands on this node where a blob comes from other nodes, leaves
// for them, or changes its layout, and which of its buffers a port reads or writes.
#include "net/node_net_builder.h"

#include <algorithm>
#include <iterator>

namespace hp {

// The pieces of an edge as they land, or as this node has its own.
StatusOr<std::vector<int>> NodeNetBuilder::Gather(int edge_index) {
  if (auto found = gathered_.find(edge_index); found != gathered_.end()) return found->second;
  const Edge& edge = placement_.edges()[edge_index];
  const int available = plan_.LandingSegment(edge_index);
  std::vector<int> parts;
  for (const EdgePiece& piece : plan_.PiecesIn(edge)) {
    if (plan_.IsLocal(edge, piece)) {
      const int own = exported_.at(edge_index);
      const std::string name = net_->tensors_[own].name;
      const TensorDesc desc = net_->tensors_[own].desc;
      parts.push_back(AddTensor(name, desc, net_->tensors_[own].value, std::max(available, available_[own])));
      for (size_t s = 0; s < info_.size(); ++s) {
        const StepInfo& info = info_[s];
        const bool broadcasts = info.kind == StepInfo::kExport && info.edge == edge_index && info.reader < 0;
        if (broadcasts) net_->steps_[s].out.push_back(parts.back());
      }
      own_.emplace(edge_index, parts.back());
    } else {
      const Shape& whole = shapes_[edge.blob];
      const Shape shape = whole.rank() > 1 ? whole.With(1, piece.channels.size()) : whole;
      const std::string name = graph_.blobs()[edge.blob].name + "[" + std::to_string(piece.writer) + "]";
      parts.push_back(AddTensor(name, {shape, 1, edge.element}, -1, available));
      landings_.push_back({edge_index, piece.writer, parts.back()});
    }
  }
  for (int& part : parts) {
    HP_ASSIGN_OR_RETURN(part, Import(part));
  }
  gathered_[edge_index] = parts;
  return parts;
}

// What crossed in 16 bits, in float32.
StatusOr<int> NodeNetBuilder::Import(int tensor) {
  const TensorDesc desc = net_->tensors_[tensor].desc;
  if (desc.element == ElementType::kFloat32) return tensor;
  NetStep step;
  step.name = "import " + net_->tensors_[tensor].name;
  step.in = {tensor};
  step.segment = available_[tensor];
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, context_.backend->Import({desc}));
  step.op = std::move(op);
  const int out = AddTensor(step.name, {desc.shape, 1}, -1, step.segment);
  step.out = {out};
  AddStep(std::move(step), {.kind = StepInfo::kImport});
  return out;
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
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, context_.backend->Concat(1, descs));
  step.op = std::move(op);
  const int out = AddTensor(step.name, step.op->outputs()[0], -1, step.segment);
  step.out = {out};
  AddStep(std::move(step), {.kind = StepInfo::kConcat});
  return whole_[edge] = out;
}

StatusOr<int> NodeNetBuilder::Dense(int tensor) {
  return net_->tensors_[tensor].desc.dense() ? StatusOr<int>(tensor) : Plain(tensor);
}

StatusOr<int> NodeNetBuilder::Plain(int tensor) {
  if (net_->tensors_[tensor].desc.plain()) return tensor;
  if (auto found = dense_.find(tensor); found != dense_.end()) return found->second;
  NetStep step;
  step.name = "dense " + net_->tensors_[tensor].name;
  step.in = {tensor};
  step.segment = available_[tensor];
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op,
                      context_.backend->Export(1, ElementType::kFloat32, {net_->tensors_[tensor].desc}));
  step.op = std::move(op);
  const int out = AddTensor(step.name, {net_->tensors_[tensor].desc.shape, 1}, -1, step.segment);
  step.out = {out};
  AddStep(std::move(step), {.kind = StepInfo::kDense});
  return dense_[tensor] = out;
}

Status NodeNetBuilder::FindKept() {
  for (const std::string& name : context_.kept) {
    const int blob = graph_.FindBlob(name);
    if (blob < 0) {
      return InvalidArgument("net \"%s\" has no blob \"%s\" in phase %s", graph_.net().name().c_str(), name.c_str(),
                             graph_.phase().name().c_str());
    }
    if (graph_.blobs()[blob].label) {
      return InvalidArgument("blob \"%s\" holds labels, which no layer computes", name.c_str());
    }
    kept_.push_back(blob);
  }
  return OkStatus();
}

Status NodeNetBuilder::AddKept() {
  for (int blob : kept_) {
    const int tensor = local_.at(blob);
    if (net_->buffers_[net_->tensors_[tensor].value].kind == NetBuffer::kNowhere) {
      return InvalidArgument("blob \"%s\" is computed in blocks of classes and never there as a whole",
                             graph_.blobs()[blob].name.c_str());
    }
    HP_ASSIGN_OR_RETURN(const int plain, Plain(tensor));
    net_->kept_.push_back(plain);
  }
  return OkStatus();
}

// Layers that read a blob on its own node read it as it crosses to others.
Status NodeNetBuilder::AddRound(int blob) {
  const ElementType element = placement_.ElementAt(blob);
  const std::vector<int>& readers = graph_.blobs()[blob].consumers;
  const bool read_here =
      std::any_of(readers.begin(), readers.end(), [&](int layer) { return placement_.ReadsLocally(layer, blob); });
  if (element == ElementType::kFloat32 || !read_here) return OkStatus();
  const int source = local_.at(blob);
  if (net_->tensors_[source].desc.element == element) return OkStatus();  // as it was computed
  NetStep step;
  step.name = "round " + graph_.blobs()[blob].name;
  step.in = {source};
  step.segment = available_[source];
  HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, context_.backend->Round(element, {net_->tensors_[source].desc}));
  step.op = std::move(op);
  local_[blob] = AddTensor(step.name, step.op->outputs()[0], -1, step.segment);
  step.out = {local_[blob]};
  AddStep(std::move(step), {.kind = StepInfo::kRound, .gradient_in_place = true});
  return OkStatus();
}

// Where a blob leaves this node, or changes its layout on it, a step of our own stands for each edge.
Status NodeNetBuilder::AddExports(int blob) {
  if (!local_.contains(blob)) return OkStatus();
  HP_RETURN_IF_ERROR(AddRound(blob));
  for (int e = 0; e < static_cast<int>(placement_.edges().size()); ++e) {
    const Edge& edge = placement_.edges()[e];
    if (edge.blob != blob) continue;
    const std::vector<EdgePiece> pieces = plan_.PiecesOut(edge);
    if (pieces.empty()) continue;
    const Range here = placement_.ChannelsOn(blob, plan_.distinct_part(edge.from_stage));
    const bool all =
        std::all_of(pieces.begin(), pieces.end(), [&](const EdgePiece& piece) { return piece.channels == here; });
    HP_RETURN_IF_ERROR(all ? AddExport(e, local_.at(blob), pieces) : AddScatter(e, local_.at(blob), pieces));
  }
  return OkStatus();
}

// All readers get the same: an export makes the tensor dense and of the wire's type (nothing to do if it is) and, on
// the way back, adds up the gradients of all readers in the order of their ranks. Images lie in the reader's memory,
// which is not the transport's and is another for each micro-batch: they are copied.
Status NodeNetBuilder::AddExport(int edge, int source, const std::vector<EdgePiece>& pieces) {
  const TensorDesc desc = net_->tensors_[source].desc;
  const ElementType element = placement_.edges()[edge].element;
  StepInfo info{.kind = StepInfo::kExport, .edge = edge};
  std::copy_if(pieces.begin(), pieces.end(), std::back_inserter(info.pieces),
               [](const EdgePiece& piece) { return piece.gradient; });
  NetStep step;
  step.name = "export " + graph_.blobs()[placement_.edges()[edge].blob].name;
  step.in = {source};
  step.segment = available_[source];
  const int readers = std::max<int>(1, static_cast<int>(info.pieces.size()));
  HP_ASSIGN_OR_RETURN(step.op, context_.backend->Export(readers, element, {desc}));
  const int shared = net_->tensors_[source].value;
  const bool as_it_crosses = desc.dense() && desc.element == element;
  step.forward = !as_it_crosses || net_->buffers_[shared].kind == NetBuffer::kImages;
  const int value = step.forward ? -1 : shared;
  exported_[edge] = AddTensor(step.name, {desc.shape, 1, element}, value, step.segment);
  step.out = {exported_[edge]};
  AddStep(std::move(step), std::move(info));
  return OkStatus();
}

// Each reader gets channels of its own: a scatter copies them into dense tensors and, on the way back, puts their
// gradients side by side. In 16 bits an export stands behind each.
Status NodeNetBuilder::AddScatter(int edge, int source, const std::vector<EdgePiece>& pieces) {
  HP_ASSIGN_OR_RETURN(const int dense, Plain(source));
  const int blob = placement_.edges()[edge].blob;
  const ElementType element = placement_.edges()[edge].element;
  const bool rounds = element != ElementType::kFloat32;
  const int64_t first = placement_.ChannelsOn(blob, plan_.distinct_part(placement_.edges()[edge].from_stage)).begin;
  NetStep step;
  step.name = "scatter " + graph_.blobs()[blob].name;
  step.in = {dense};
  step.segment = available_[dense];
  std::vector<Range> channels;
  for (const EdgePiece& piece : pieces) {
    channels.push_back({piece.channels.begin - first, piece.channels.end - first});
  }
  HP_ASSIGN_OR_RETURN(step.op, context_.backend->Scatter(channels, {net_->tensors_[dense].desc}));
  for (size_t i = 0; i < pieces.size(); ++i) {
    step.out.push_back(AddTensor(step.name, step.op->outputs()[i], -1, step.segment));
    if (plan_.IsLocal(placement_.edges()[edge], pieces[i])) exported_[edge] = step.out.back();
  }
  const std::vector<int> outs = step.out;
  if (!rounds) {
    AddStep(std::move(step), {.kind = StepInfo::kScatter, .edge = edge, .pieces = pieces});
    return OkStatus();
  }
  AddStep(std::move(step), {.kind = StepInfo::kPieces});
  for (size_t i = 0; i < pieces.size(); ++i) {
    NetStep out;
    out.name = "export " + graph_.blobs()[blob].name;
    out.in = {outs[i]};
    out.segment = available_[outs[i]];
    const TensorDesc desc = net_->tensors_[outs[i]].desc;
    HP_ASSIGN_OR_RETURN(out.op, context_.backend->Export(1, element, {desc}));
    out.out = {AddTensor(out.name, {desc.shape, 1, element}, -1, out.segment)};
    if (plan_.IsLocal(placement_.edges()[edge], pieces[i])) exported_[edge] = out.out[0];
    StepInfo info{.kind = StepInfo::kExport, .edge = edge, .reader = pieces[i].reader};
    if (pieces[i].gradient) info.pieces = {pieces[i]};
    AddStep(std::move(out), std::move(info));
  }
  return OkStatus();
}

// Gradients of what leaves come from readers, not from consumers on this node; our own reader's is its tensor's.
int NodeNetBuilder::GradientOf(const EdgePiece& piece, int edge, int tensor) {
  return plan_.IsLocal(placement_.edges()[edge], piece) ? net_->tensors_[own_.at(edge)].gradient
                                                        : AddBuffer(net_->tensors_[tensor].desc.bytes());
}

// What a port reads or writes: of an edge that leaves here the export's output and the gradients that its readers send,
// of one that lands here the part that it fills and this node's gradient of it.
int NodeNetBuilder::PortBuffer(const PortPlan& port) const {
  const bool leaves = port.landing == port.gradient;
  for (size_t s = 0; leaves && s < net_->steps_.size(); ++s) {
    if (info_[s].edge != port.edge || (info_[s].reader >= 0 && info_[s].reader != port.part)) continue;
    const NetStep& step = net_->steps_[s];
    if (info_[s].kind == StepInfo::kExport && !port.gradient) return net_->tensors_[step.out[0]].value;
    const auto& pieces = info_[s].pieces;
    const auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const auto& p) { return p.reader == port.part; });
    const auto index = piece - pieces.begin();
    return port.gradient ? step.out_gradient[index] : net_->tensors_[step.out[index]].value;
  }
  for (const Landing& landing : landings_) {
    if (leaves || landing.edge != port.edge || landing.writer != port.part) continue;
    const NetTensor& tensor = net_->tensors_[landing.tensor];
    return port.gradient ? tensor.gradient : tensor.value;
  }
  return -1;
}

}  // namespace hp

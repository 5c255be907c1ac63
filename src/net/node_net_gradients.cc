// The backward pass of a net: which steps compute gradients, where several of one tensor are added up, and which share
// memory (passes 2, 3 and 5 of node_net_builder.cc).
#include "net/node_net_builder.h"

#include "glog/logging.h"

#include <algorithm>
#include <set>

namespace hp {

// A layer's step computes gradients if the placement says so; our own steps do if a reader of their output does.
void NodeNetBuilder::MarkBackward() {
  auto& steps = net_->steps_;
  uses_.assign(net_->tensors_.size(), {});
  for (int s = static_cast<int>(steps.size()) - 1; s >= 0; --s) {
    NetStep& step = steps[s];
    StepInfo& info = info_[s];
    if (info.kind == StepInfo::kExport || info.kind == StepInfo::kScatter) {
      step.backward =
          std::any_of(info.pieces.begin(), info.pieces.end(), [](const auto& piece) { return piece.gradient; });
    } else if (info.kind != StepInfo::kLayer) {
      step.backward = std::any_of(step.out.begin(), step.out.end(), [this](int out) { return !uses_[out].empty(); });
    } else {
      step.backward = info.plan->backward;
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
    HP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, context_.backend->Split(static_cast<int>(uses_[t].size()), {desc}));
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

// The step of a group that a backward pass comes to first clears the gradients that all of them add to.
void NodeNetBuilder::FindClears() {
  for (const std::vector<int>& group : plan_.param_groups()) {
    if (group.size() == 1) continue;
    const int last = plan_.layers()[group.back()].layer;
    const auto step = std::find_if(net_->steps_.begin(), net_->steps_.end(),
                                   [last](const NetStep& s) { return s.layer_index == last; });
    for (const int layer : group) {
      for (const int param : plan_.params_of(plan_.layers()[layer].layer)) step->clears.push_back(param);
    }
    std::sort(step->clears.begin(), step->clears.end());
    step->clears.erase(std::unique(step->clears.begin(), step->clears.end()), step->clears.end());
  }
}

bool NodeNetBuilder::IsSum(const NetStep& step) const {
  return step.layer_index >= 0 && graph_.layers()[step.layer_index].piece == GraphLayer::kSum;
}

// Whether all inputs get the gradient of output 0, which lies in memory just as theirs.
bool NodeNetBuilder::PassesGradient(int index) const {
  const NetStep& step = net_->steps_[index];
  if (info_[index].kind != StepInfo::kLayer || !step.layer->passes_gradient()) return false;
  const TensorDesc& desc = net_->tensors_[step.out[0]].desc;
  return std::all_of(step.in.begin(), step.in.end(), [&](int in) { return net_->tensors_[in].desc == desc; });
}

// A gradient that several tensors share is not overwritten: steps that come later in the backward pass read it, too.
void NodeNetBuilder::AssignGradients() {
  auto& tensors = net_->tensors_;
  std::set<int> shared;  // buffers
  for (int s = static_cast<int>(net_->steps_.size()) - 1; s >= 0; --s) {
    NetStep& step = net_->steps_[s];
    StepInfo& info = info_[s];
    bool alias = info.gradient_in_place;
    if (info.kind == StepInfo::kExport) {
      const TensorDesc& in_desc = tensors[step.in[0]].desc;
      for (const EdgePiece& piece : info.pieces) step.out_gradient.push_back(GradientOf(piece, info.edge, step.out[0]));
      const bool as_it_crosses = in_desc.dense() && in_desc.element == tensors[step.out[0]].desc.element;
      alias = as_it_crosses && info.pieces.size() == 1;
    } else if (info.kind == StepInfo::kScatter) {
      for (size_t i = 0; i < info.pieces.size(); ++i) {
        step.out_gradient.push_back(info.pieces[i].gradient ? GradientOf(info.pieces[i], info.edge, step.out[i]) : -1);
      }
    } else {
      for (int out : step.out) step.out_gradient.push_back(tensors[out].gradient);
    }
    const bool view = alias && (info.kind == StepInfo::kExport || !step.forward);
    if (alias && !view && shared.contains(step.out_gradient[0])) alias = false;
    const bool passes = PassesGradient(s) && step.out_gradient[0] >= 0;
    const bool sum = passes || IsSum(step);  // the gradient of every addend is the sum's
    for (size_t i = 0; i < step.in.size(); ++i) {
      if (!info.wants[i]) {
        step.in_gradient.push_back(-1);
        continue;
      }
      const bool shares = (alias && i == 0) || sum;
      const int buffer =
          shares && step.out_gradient[0] >= 0 ? step.out_gradient[0] : AddBuffer(tensors[step.in[i]].desc.bytes());
      tensors[step.in[i]].gradient = buffer;
      step.in_gradient.push_back(buffer);
    }
    if (sum && std::count(info.wants.begin(), info.wants.end(), true) > 1) shared.insert(step.out_gradient[0]);
    if (view || passes) step.backward = false;
  }
}

// A deferred layer keeps its inputs and its output's gradient for all rows of the update.
void NodeNetBuilder::Defer() {
  for (size_t s = 0; s < net_->steps_.size(); ++s) {
    NetStep& step = net_->steps_[s];
    if (info_[s].plan == nullptr || !info_[s].plan->deferred) continue;
    step.deferred = true;
    for (int tensor : step.in) {
      NetBuffer& value = net_->buffers_[net_->tensors_[tensor].value];
      CHECK(value.kind != NetBuffer::kImages) << step.name << " can't be deferred: its input is the reader's memory";
      value.kind = NetBuffer::kUpdateMatrix;
    }
    net_->buffers_[step.out_gradient[0]].kind = NetBuffer::kUpdateMatrix;
  }
}

}  // namespace hp

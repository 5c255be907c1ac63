// What ops do for their neighbours, which saves passes over memory (pass 5 of node_net_builder.cc).
#include "net/node_net_builder.h"

#include <algorithm>

namespace hp {

// A plain ReLU in place on what a step of the same segment made is left to that step, and its gradient to the step that
// made it, or to the split that adds up the gradients of its output, where the op can do so, which saves passes over
// memory.
void NodeNetBuilder::LeaveRelus() {
  std::vector<NetStep>& steps = net_->steps_;
  for (size_t s = 0; s < steps.size(); ++s) {
    NetStep& relu = steps[s];
    if (!relu.op->is_plain_relu() || !info_[s].in_place) continue;
    const auto maker = std::find_if(steps.begin(), steps.end(), [&](const NetStep& step) {
      return step.layer != nullptr && step.segment == relu.segment && !step.out.empty() && step.out[0] == relu.in[0];
    });
    if (maker != steps.end() && maker->op->TakeReluBehind()) relu.forward = false;
    if (!relu.backward || relu.in_gradient[0] < 0 || relu.in_gradient[0] != relu.out_gradient[0]) continue;
    const auto is_split = [&](const NetStep& step) {
      return info_[&step - steps.data()].kind == StepInfo::kSplit && step.in[0] == relu.out[0];
    };
    const auto split = std::find_if(steps.begin(), steps.end(), is_split);
    const bool left = (!relu.forward && maker->op->TakeReluGradientBehind()) ||
                      (split != steps.end() && split->op->TakeReluGradientBefore());
    if (left) relu.backward = false;
  }
}

// Null: none, or several.
NetStep* NodeNetBuilder::OnlyReader(int tensor) {
  NetStep* only = nullptr;
  for (NetStep& step : net_->steps_) {
    const auto readings = std::count(step.in.begin(), step.in.end(), tensor);
    if (readings == 0) continue;
    if (only != nullptr || readings > 1) return nullptr;
    only = &step;
  }
  return only;
}

// A tensor lies in groups of channels where its reader or its writer would rather have it so, and both can do it. ReLUs
// between them that were left to the writer read and write nothing.
void NodeNetBuilder::JoinGroups() {
  for (NetStep& writer : net_->steps_) {
    if (writer.layer == nullptr || writer.out.size() != 1) continue;
    NetStep* reader = OnlyReader(writer.out[0]);
    while (reader != nullptr && reader->op->is_plain_relu() && !reader->forward && !reader->backward) {
      reader = OnlyReader(reader->out[0]);
    }
    if (reader == nullptr || reader->in.size() != 1) continue;
    for (const int64_t groups : {writer.op->groups(), reader->op->groups()}) {
      if (groups == 1 || !writer.op->WriteGroups(groups)) continue;
      if (reader->op->ReadGroups(groups)) break;
      writer.op->WriteGroups(1);
    }
  }
}

// Raw images are left to the only step that reads images, if it can make of them what it needs. With a second tensor in
// their memory, a layer works in place on them or views them: then somebody has to write floats.
void NodeNetBuilder::LeaveRawImages() {
  if (net_->raw_images_bytes() == 0 || !kept_.empty()) return;
  const auto& tensors = net_->tensors_;
  const auto of_images = [this](const NetTensor& tensor) {
    return net_->buffers_[tensor.value].kind == NetBuffer::kImages;
  };
  if (std::count_if(tensors.begin(), tensors.end(), of_images) != 1) return;
  const auto images = std::find_if(tensors.begin(), tensors.end(), of_images);
  const NetStep* const reader = OnlyReader(static_cast<int>(images - tensors.begin()));
  const bool leave = reader != nullptr && reader->segment == 0 && reader->op->reads_raw_images();
  if (leave) net_->raw_reader_ = static_cast<int>(reader - net_->steps_.data());
}

}  // namespace hp

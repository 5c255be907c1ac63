// Each step says which buffers it reads and writes forward and backward; the life of a buffer goes from its first use
// to its last (Use), or is kAlways once it is used in two periods. PlanMemory does the rest. Buffers of ports leave the
// arena (AssignPorts): memory that others reach is registered with network adapters, exported by GPUs, or of small
// pages, and the less there is of it, the better. What a backward pass reads
// of its forward pass depends on the op: backward_reads_input, backward_reads_output and its saved bytes.
#include "net/memory_planner.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int kUnused = -2;  // a period: no use seen yet
constexpr size_t kAlignment = 64;

}  // namespace

MemoryPlanner::MemoryPlanner(NodeNet* net) : net_(net) {
  AssignPorts();
  for (const NetBuffer& buffer : net->buffers_) {
    lives_.push_back({buffer.kind == NetBuffer::kArena ? buffer.bytes : 0, kUnused});
  }
}

// A buffer may be of several ports.
void MemoryPlanner::AssignPorts() {
  for (const int port : net_->port_buffers_) {
    NetBuffer& buffer = net_->buffers_[port];
    if (buffer.kind != NetBuffer::kArena) continue;
    buffer.kind = NetBuffer::kPorts;
    buffer.offset = net_->port_bytes_;
    net_->port_bytes_ += (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
}

MemoryPlanner::Moment MemoryPlanner::Forward(int step) const {
  if (net_->segments() == 1) return {0, step};
  return {2 * net_->steps_[step].segment, step};
}

MemoryPlanner::Moment MemoryPlanner::Backward(int step) const {
  const int at = 2 * static_cast<int>(net_->steps_.size()) - step;
  if (net_->segments() == 1) return {0, at};
  return {2 * net_->steps_[step].segment + 1, at};
}

void MemoryPlanner::Use(int buffer, Moment moment) {
  Lifetime& life = lives_[buffer];
  if (life.period == kUnused) {
    life = {life.bytes, moment.period, moment.at, moment.at};
  } else if (life.period != moment.period) {
    life.period = Lifetime::kAlways;
  } else {
    life.begin = std::min(life.begin, moment.at);
    life.end = std::max(life.end, moment.at);
  }
}

void MemoryPlanner::AddUses(int index) {
  const NetStep& step = net_->steps_[index];
  if (step.forward) {
    for (int tensor : step.in) UseValue(tensor, Forward(index));
    for (int tensor : step.out) UseValue(tensor, Forward(index));
  }
  const bool learns = step.learns && !step.deferred;
  if (!step.backward && !learns) return;
  std::vector<int> read;
  if (step.op->backward_reads_input()) {
    for (int tensor : step.in) read.push_back(net_->tensors_[tensor].value);
  }
  for (int gradient : step.out_gradient) {
    if (gradient >= 0) read.push_back(gradient);
  }
  if (step.op->backward_reads_output()) {
    for (int tensor : step.out) read.push_back(net_->tensors_[tensor].value);
  }
  for (int buffer : read) {
    Use(buffer, Backward(index));
    if (learns && !step.in_backward) UseAlways(buffer);
  }
  for (int gradient : step.in_gradient) {
    if (gradient >= 0) Use(gradient, Backward(index));
  }
}

void MemoryPlanner::Plan() {
  for (int s = 0; s < static_cast<int>(net_->steps_.size()); ++s) AddUses(s);
  for (const NetOutput& output : net_->outputs_) UseAlways(net_->tensors_[output.tensor].value);
  for (int kept : net_->kept_) UseAlways(net_->tensors_[kept].value);
  for (int s = 0; s < static_cast<int>(net_->steps_.size()); ++s) {
    const NetStep& step = net_->steps_[s];
    lives_.push_back({step.op->saved_bytes(), kUnused});
    const int saved = static_cast<int>(lives_.size()) - 1;
    Use(saved, Forward(s));
    if (step.backward || step.learns) Use(saved, Backward(s));
    if (step.learns && !step.in_backward) UseAlways(saved);
  }
  Assign();
}

void MemoryPlanner::Assign() {
  const MemoryPlan plan = PlanMemory(lives_);
  net_->arena_bytes_ = plan.bytes;
  for (size_t b = 0; b < net_->buffers_.size(); ++b) {
    NetBuffer& buffer = net_->buffers_[b];
    if (buffer.kind == NetBuffer::kArena) buffer.offset = plan.offsets[b];
    if (buffer.kind != NetBuffer::kUpdateMatrix) continue;
    buffer.offset = net_->update_row_bytes_.size();
    net_->update_row_bytes_.push_back(buffer.bytes / net_->rows_);
  }
  for (size_t s = 0; s < net_->steps_.size(); ++s) {
    NetStep& step = net_->steps_[s];
    step.saved = plan.offsets[net_->buffers_.size() + s];
    net_->scratch_bytes_ = std::max(net_->scratch_bytes_, step.op->scratch_bytes());
    if (step.update_op) net_->scratch_bytes_ = std::max(net_->scratch_bytes_, step.update_op->scratch_bytes());
  }
}

}  // namespace hp

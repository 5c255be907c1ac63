// A run binds the indices of a step's tensors and buffers to addresses in the memory of the micro-batch at hand (Bind),
// and calls the op. Nothing else happens at run time: what is shared, in place or not wanted was decided when the net
// was built.
#include "net/node_net.h"

#include "net/node_net_builder.h"
#include "tensor/raw_images.h"

#include <algorithm>
#include <functional>

namespace hp {

/// The views that an OpArgs points to.
struct BoundArgs {
  std::vector<Tensor> in, out, d_in, d_out;
  std::vector<ParamView> params;
  std::vector<float*> gradients;
};

StatusOr<std::unique_ptr<NodeNet>> NodeNet::Create(const NodePlan& plan, const NetContext& context, int64_t rows) {
  return NodeNetBuilder(plan, context, rows).Build();
}

std::span<std::byte> NodeNet::BufferSpan(int index, const NetRun& run) const {
  const NetBuffer& buffer = buffers_[index];
  switch (buffer.kind) {
    case NetBuffer::kArena:
      return {run.arena + buffer.offset, buffer.bytes};
    case NetBuffer::kPorts:
      return {run.ports + buffer.offset, buffer.bytes};
    case NetBuffer::kUpdateMatrix:
      return {run.update_matrices[buffer.offset] + run.update_row * (buffer.bytes / rows_), buffer.bytes};
    case NetBuffer::kNowhere:
      return {};
    case NetBuffer::kImages:
      break;
  }
  return {reinterpret_cast<std::byte*>(run.images) + buffer.offset, buffer.bytes};
}

Tensor NodeNet::ValueOf(int tensor, const NetRun& run) const {
  return {tensors_[tensor].desc, BufferSpan(tensors_[tensor].value, run).data()};
}

bool NodeNet::Accumulates(const NetStep& step, const NetRun& run) { return (run.accumulate >> step.part & 1) != 0; }

OpArgs NodeNet::Bind(const NetStep& step, const NetRun& run, BoundArgs* bound) const {
  auto gradient = [&](int tensor, int buffer) {
    return Tensor{tensors_[tensor].desc, buffer < 0 ? nullptr : BufferSpan(buffer, run).data()};
  };
  for (int tensor : step.in) bound->in.push_back(ValueOf(tensor, run));
  for (int tensor : step.out) bound->out.push_back(ValueOf(tensor, run));
  for (size_t i = 0; i < step.in_gradient.size(); ++i) bound->d_in.push_back(gradient(step.in[i], step.in_gradient[i]));
  for (size_t i = 0; i < step.out_gradient.size(); ++i) {
    bound->d_out.push_back(gradient(step.out[std::min(i, step.out.size() - 1)], step.out_gradient[i]));
  }
  for (int param : step.params) {
    bound->params.push_back(run.params[param]);
    bound->gradients.push_back(param < static_cast<int>(run.gradients.size()) ? run.gradients[param] : nullptr);
  }
  OpArgs args;
  args.in = bound->in;
  args.out = bound->out;
  args.d_in = bound->d_in;
  args.d_out = bound->d_out;
  args.params = bound->params;
  args.d_params = bound->gradients;
  args.accumulate = step.shares || Accumulates(step, run);
  args.saved = run.arena + step.saved;
  args.scratch = run.scratch;
  args.batch = &run.batch;
  if (step.sample >= 0) {
    args.update_sample = &run.samples->at(step.sample);
    args.sample = &args.update_sample->batches.at(run.batch_of_update);
  }
  return args;
}

void NodeNet::Forward(int segment, const NetRun& run) const {
  for (const NetStep& step : steps_) {
    if (step.segment != segment) continue;
    ForwardStep(step, run);
    if (run.between_layers != nullptr) (*run.between_layers)();
  }
}

void NodeNet::ForwardStep(const NetStep& step, const NetRun& run) const {
  if (!step.forward) return;
  BoundArgs bound;
  OpArgs args = Bind(step, run, &bound);
  if (&step - steps_.data() == raw_reader_) args.raw_images = run.raw_images;
  step.op->Forward(args);
}

void NodeNet::Backward(int segment, const NetRun& run, const std::function<void(const NetStep&)>& on_weights) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->segment != segment) continue;
    if (!step->backward) continue;
    BackwardStep(*step, run);
    if (step->in_backward && on_weights) {
      FinishGradients();
      on_weights(*step);
    }
    if (run.between_layers != nullptr) (*run.between_layers)();
  }
  FinishGradients();
}

void NodeNet::BackwardStep(const NetStep& step, const NetRun& run) const {
  InputGradient(step, run);
  if (step.in_backward) BeginWeightGradient(step, run);
}

void NodeNet::FinishGradients() const { backend_->FinishGradients(); }

void NodeNet::InputGradient(const NetStep& step, const NetRun& run) const {
  const bool wanted = std::any_of(step.in_gradient.begin(), step.in_gradient.end(), [](int b) { return b >= 0; });
  if (!step.backward || !wanted) return;
  BoundArgs bound;
  step.op->BackwardInput(Bind(step, run, &bound));
}

void NodeNet::WeightGradient(const NetStep& step, const NetRun& run) const {
  BeginWeightGradient(step, run);
  FinishGradients();
}

void NodeNet::BeginWeightGradient(const NetStep& step, const NetRun& run) const {
  for (const int param : step.clears) {
    if (Accumulates(step, run)) break;
    backend_->Clear({run.gradients[param], static_cast<size_t>(plan_.params()[param].block.count())});
  }
  BoundArgs bound;
  step.op->BackwardParams(Bind(step, run, &bound));
}

void NodeNet::WithUpdateArgs(const NetStep& step, const NetRun& run,
                             const std::function<void(Op&, const OpArgs&)>& use) const {
  NetRun whole = run;
  whole.update_row = 0;
  BoundArgs bound;
  const OpArgs args = Bind(step, whole, &bound);
  for (Tensor& tensor : bound.in) tensor.desc.shape = tensor.desc.shape.With(0, plan_.update_rows());
  for (Tensor& tensor : bound.d_out) tensor.desc.shape = tensor.desc.shape.With(0, plan_.update_rows());
  use(*step.update_op, args);
}

size_t NodeNet::images_bytes() const {
  for (const NetBuffer& buffer : buffers_) {
    if (buffer.kind == NetBuffer::kImages) return plan_.sample().Floats(rows_) * sizeof(float);
  }
  return 0;
}

size_t NodeNet::raw_images_bytes() const {
  if (images_bytes() == 0 || !plan_.sample().may_be_raw()) return 0;
  return RawImagesBytes(rows_, plan_.sample().data.count());
}

int64_t NodeNet::labels_behind() const { return plan_.sample().several_labels() ? rows_ * plan_.sample().labels() : 0; }

std::span<const float> NodeNet::LabelsBehind(const float* images) const {
  if (images == nullptr || labels_behind() == 0 || images_bytes() == 0) return {};
  return {images + rows_ * plan_.sample().data.count(), static_cast<size_t>(labels_behind())};
}

}  // namespace hp

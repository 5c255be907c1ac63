#include "engine/workspace.h"

#include <utility>

namespace hp {

StatusOr<std::unique_ptr<Workspace>> Workspace::Create(const NodeModel& model, int pool_size, Device* device,
                                                       ParamStore* params) {
  std::unique_ptr<Workspace> workspace(new Workspace(model, device, params));
  HP_RETURN_IF_ERROR(workspace->Allocate(pool_size));
  HP_RETURN_IF_ERROR(workspace->AllocateGradients());
  workspace->IndexParams();
  return workspace;
}

Status Workspace::Allocate(int pool_size) {
  HP_ASSIGN_OR_RETURN(SolverPool pool,
                      SolverPool::Create(device_, pool_size, model_.arena_bytes(), model_.port_bytes()));
  pool_ = std::make_unique<SolverPool>(std::move(pool));
  HP_ASSIGN_OR_RETURN(scratch_, device_->Allocate(model_.scratch_bytes() + 64));
  for (size_t row : model_.any_net(caffe::TRAIN).update_row_bytes()) {
    HP_ASSIGN_OR_RETURN(Buffer matrix, device_->AllocateShared(row * model_.schedule().update_rows()));
    matrix_rows_.push_back(matrix.data());
    matrices_.push_back(std::move(matrix));
  }
  return OkStatus();
}

// Ops write a gradient for every parameter of a layer that learns; that of a frozen one is not looked at.
Status Workspace::AllocateGradients() {
  for (int i = 0; i < params_->size(); ++i) {
    const bool frozen = params_->param(i).frozen();
    HP_ASSIGN_OR_RETURN(Buffer unused, device_->Allocate(frozen ? params_->count(i) * sizeof(float) : 0));
    gradients_.push_back(frozen ? unused.floats() : params_->gradient(i).data());
    unused_gradients_.push_back(std::move(unused));
  }
  return OkStatus();
}

void Workspace::IndexParams() {
  for (const Phase phase : model_.phases()) {
    for (const NodeNet* net : model_.AllNets(phase)) {
      NetParams& of_net = net_params_[net];  // there even if the node has no parameters
      for (const ParamPlan& param : net->plan().params()) {
        of_net.index.push_back(params_->Find(param.layer, param.blob));
        of_net.gradients.push_back(gradients_[of_net.index.back()]);
      }
    }
  }
}

const NodeNet& Workspace::NetOf(MsgId id) const { return model_.NetOf(id); }

NetRun Workspace::RunOf(int solver, MsgId id) const {
  const IdSamples samples = model_.schedule().SamplesOfId(id);
  const JobShape& shape = model_.schedule().shape();
  NetRun run;
  run.arena = pool_->arena(solver);
  run.ports = pool_->ports(solver);
  run.update_matrices = matrix_rows_;
  run.update_row = samples.batch * shape.train_batch + samples.first_row;
  run.scratch = scratch_.data();
  run.batch_of_update = samples.batch;
  run.batch.train = id.train();
  run.batch.first_sample = samples.first_sample;
  run.batch.global_rows = shape.batch(model_.schedule().PhaseOf(id));
  run.batch.sub_batches = id.train() ? static_cast<int>(shape.iter_size) : 1;
  return run;
}

void Workspace::UseParams(const NodeNet& net, int64_t version, std::vector<ParamView>* views, NetRun* run) const {
  views->clear();
  const NetParams& of_net = net_params_.at(&net);
  for (int i : of_net.index) views->push_back(params_->View(i, version));
  run->params = *views;
  run->gradients = of_net.gradients;
}

// A deferred step reads and writes matrices, parameters and scratch alone. The arena is only what its other tensors,
// which BackwardParams does not look at, get their addresses from: solver 0's, of which no byte is read or written.
void Workspace::WithUpdateArgs(const NetStep& step, const ClassSamples& samples,
                               const std::function<void(Op&, const OpArgs&)>& use) const {
  const NodeNet& net = model_.any_net(caffe::TRAIN);
  NetRun run;
  run.arena = pool_->arena(0);
  run.ports = pool_->ports(0);
  run.update_matrices = matrix_rows_;
  run.scratch = scratch_.data();
  run.samples = &samples;
  std::vector<ParamView> views;
  UseParams(net, params_->latest(), &views, &run);  // without staleness, which has no deferred steps, the only one
  net.WithUpdateArgs(step, run, use);
}

std::vector<std::span<std::byte>> Workspace::shared_memory() const {
  std::vector<std::span<std::byte>> memory = {pool_->all_ports()};
  for (const Buffer& matrix : matrices_) memory.push_back(matrix.span());
  return memory;
}

}  // namespace hp

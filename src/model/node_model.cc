// Micro-batches of one phase may differ by a row, when samples do not divide evenly, and ops are made for fixed
// shapes: so there is a net for each number of rows, and on a node with several parts for each variant. They share
// nothing but parameters, which lie in the ParamStore and fit all of them, and the solvers' memory, which has the size
// of the largest.
#include "model/node_model.h"

#include "model/label_rules.h"
#include "proto/place.h"
#include "proto/solver_type.h"

#include "glog/logging.h"

#include <algorithm>
#include <set>

namespace hp {

StatusOr<std::unique_ptr<NodeModel>> NodeModel::Create(std::shared_ptr<const JobPlan> job, const Options& options) {
  std::unique_ptr<NodeModel> model(new NodeModel(std::move(job), options));
  model->plan_.updates_together = !model->on_host();
  for (const Phase phase : model->phases()) {
    HP_RETURN_IF_ERROR(AtLayer(model->BuildNets(phase), model->job().graph(phase).net(), phase));
  }
  model->CheckGroups();
  for (const ParamOwners& param : model->job().params()) {
    model->whole_params_.push_back(
        {{param.layer, param.blob, param.spec.shape, Block::Whole(param.spec.shape), param.spec.lr_mult,
          param.spec.decay_mult, true, true, 0, param.spec.average_keeps, HistoriesOf(model->job().solver())},
         param.slices,
         param.users});
  }
  return model;
}

Status NodeModel::BuildNets(Phase phase) {
  Nets& nets = nets_.emplace_back();
  const NetContext context{options_.backend, options_.op_factories, options_.seed};
  for (int variant = 0; variant < variants(); ++variant) {
    std::vector<int64_t> counts = schedule().RowCounts(phase, plan_.share);
    if (counts.empty())
      counts.push_back(1);  // no id passes here: a parameter server, or more nodes than a test has rows
    for (int64_t rows : counts) {
      HP_ASSIGN_OR_RETURN(std::unique_ptr<NodeNet> net,
                          NodeNet::Create(job_->node(rank(), phase, variant), context, rows));
      arena_bytes_ = std::max(arena_bytes_, net->arena_bytes());
      port_bytes_ = std::max(port_bytes_, net->port_bytes());
      scratch_bytes_ = std::max(scratch_bytes_, net->scratch_bytes());
      nets[{variant, rows}] = std::move(net);
    }
  }
  return OkStatus();
}

// What lies in rows of an update is the same in all variants: a layer that waits for the whole update is passed by all
// ids.
void NodeModel::CheckGroups() const {
  for (int group = 0; group < static_cast<int>(plan_.groups.size()); ++group) {
    if (plan_.groups[group].exchange != GroupExchange::kServe) StepsOf(any_net(caffe::TRAIN), group);
  }
  for (const auto& [key, net] : nets(caffe::TRAIN)) {
    CHECK(net->update_row_bytes() == any_net(caffe::TRAIN).update_row_bytes()) << "variant " << key.first;
  }
}

std::vector<const NodeNet*> NodeModel::AllNets(Phase phase) const {
  std::vector<const NodeNet*> all;
  for (const auto& [key, net] : nets(phase)) all.push_back(net.get());
  return all;
}

const NetStep& NodeModel::StepOf(const NodeNet& net, int group) const { return *StepsOf(net, group).back(); }

std::vector<const NetStep*> NodeModel::StepsOf(const NodeNet& net, int group) const {
  std::vector<const NetStep*> steps;
  const std::vector<int>& layers = plan_.groups[group].layers;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const auto step = std::find_if(net.steps().begin(), net.steps().end(),
                                   [layer](const NetStep& s) { return s.layer_index == *layer; });
    CHECK(step != net.steps().end() && step->learns) << "layer " << *layer << " has no trainable parameters here";
    steps.push_back(&*step);
  }
  return steps;
}

std::vector<int> NodeModel::ParamsOf(int group) const {
  std::vector<int> of_group;
  const std::vector<ParamPlan>& params = part(caffe::TRAIN).params();
  for (int i = 0; i < static_cast<int>(params.size()); ++i) {
    if (params[i].graph_layer == plan_.groups[group].layer) of_group.push_back(i);
  }
  return of_group;
}

const std::string& NodeModel::NameOf(int group) const {
  return job().graph(caffe::TRAIN).layers()[plan_.groups[group].layer].traits.name();
}

int NodeModel::GroupOf(const NetStep& step) const {
  const auto group =
      std::find_if(plan_.groups.begin(), plan_.groups.end(), [layer = step.layer_index](const ParamGroupPlan& g) {
        return std::find(g.layers.begin(), g.layers.end(), layer) != g.layers.end();
      });
  CHECK(group != plan_.groups.end()) << "layer " << step.name << " has no parameter group";
  return static_cast<int>(group - plan_.groups.begin());
}

std::vector<LabelRule> NodeModel::label_rules(Phase phase) const {
  return LabelRulesOf(job_->graph(phase), job_->shapes(phase), job_->sample(phase));
}

std::vector<StoredParam> NodeModel::stored_params() const {
  std::set<int> fused;
  for (const NetStep& step : any_net(caffe::TRAIN).steps()) {
    if (updates_in_pieces(step)) fused.insert(step.params.begin(), step.params.end());
  }
  std::set<int> pushed;  // layers whose parameters servers update
  for (const ParamGroupPlan& group : plan_.groups) {
    if (group.exchange == GroupExchange::kPush) pushed.insert(group.layer);
  }
  std::vector<StoredParam> stored;
  const std::vector<ParamPlan>& params = part(caffe::TRAIN).params();
  for (int i = 0; i < static_cast<int>(params.size()); ++i) {
    const ParamPlan& param = params[i];
    stored.push_back({param.layer, param.blob, param.spec.shape, param.block, param.spec.lr_mult, param.spec.decay_mult,
                      !fused.contains(i), !pushed.contains(param.graph_layer), param.sample_room,
                      param.spec.average_keeps, HistoriesOf(job().solver())});
  }
  return stored;
}

}  // namespace hp

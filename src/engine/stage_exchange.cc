// The exchange sums parameter by parameter, the pipeline updates group by group: a counter for each group under way
// turns the events of one into those of the other. The last group of a clock flushes the exchange, so that gradients
// which it held back to fill a bucket go out. With parameter servers there are two such events, of gradients that have
// been sent and of values that have come.
#include "engine/stage_exchange.h"

#include "glog/logging.h"

#include <functional>

namespace hp {

ExchangedGroups ExchangedGroupsOf(const NodeModel& model, int stage) {
  const std::vector<StoredParam> params = model.stored_params();
  ExchangedGroups groups;
  const std::vector<ParamGroupPlan>& plans = model.plan().groups;
  for (int group = 0; group < static_cast<int>(plans.size()); ++group) {
    if (plans[group].exchange == GroupExchange::kNone || plans[group].stage != stage) continue;
    for (int param : model.ParamsOf(group)) {
      if (!params[param].frozen()) groups[group].push_back(param);
    }
    CHECK(groups.contains(group)) << "group " << group << " has no trainable parameters";
  }
  return groups;
}

std::vector<int> ExchangedParamsOf(const NodeModel& model, const ExchangedGroups& groups) {
  std::map<std::pair<int, int>, const std::vector<int>*, std::greater<>> backward;  // by segment and layer
  for (const auto& [group, params] : groups) {
    backward[{model.plan().groups[group].segment, model.plan().groups[group].layer}] = &params;
  }
  std::vector<int> ordered;
  for (const auto& [place, params] : backward) ordered.insert(ordered.end(), params->begin(), params->end());
  return ordered;
}

StageExchange::StageExchange(int stage, ExchangedGroups groups, ParamStore* params, Callbacks callbacks)
    : stage_(stage), params_(params), callbacks_(std::move(callbacks)), groups_(std::move(groups)) {
  for (const auto& [group, of_group] : groups_) {
    for (int param : of_group) group_of_[param] = group;
  }
}

StatusOr<std::unique_ptr<StageExchange>> StageExchange::Create(int stage, ExchangedGroups groups, ParamStore* params,
                                                               const Connect& connect, Callbacks callbacks) {
  if (groups.empty()) return std::unique_ptr<StageExchange>();
  std::unique_ptr<StageExchange> made(new StageExchange(stage, std::move(groups), params, std::move(callbacks)));
  StageExchange* const self = made.get();
  const auto on_exchanged = [self](uint64_t clock, int param) {
    self->OnExchanged(static_cast<int64_t>(clock), param);
  };
  HP_ASSIGN_OR_RETURN(made->exchange_,
                      connect({.on_exchanged = on_exchanged, .on_failure = made->callbacks_.on_failure}));
  return made;
}

StatusOr<std::unique_ptr<StageExchange>> StageExchange::CreateServed(int stage, ExchangedGroups groups,
                                                                     ParamStore* params, const ConnectServers& connect,
                                                                     Callbacks callbacks) {
  if (groups.empty()) return std::unique_ptr<StageExchange>();
  std::unique_ptr<StageExchange> made(new StageExchange(stage, std::move(groups), params, std::move(callbacks)));
  StageExchange* const self = made.get();
  const auto on_sent = [self](uint64_t clock, int param) { self->OnExchanged(static_cast<int64_t>(clock), param); };
  const auto on_values = [self](uint64_t clock, int param) { self->OnValues(static_cast<int64_t>(clock), param); };
  HP_ASSIGN_OR_RETURN(made->client_, connect({.on_sent = on_sent, .on_values = on_values}));
  return made;
}

// All of a group's parameters count as under way before the first of them is given away: it may be back at once.
void StageExchange::Add(int64_t clock, int group) {
  const std::vector<int>& params = groups_.at(group);
  {
    MutexLock lock(&mutex_);
    missing_[{clock, group}] = params.size();
  }
  if (client_) {
    for (int param : params) client_->Push(static_cast<uint64_t>(clock), param);
    return;
  }
  for (int param : params) exchange_->Add(static_cast<uint64_t>(clock), param, params_->gradient(param));
  if (++added_ < groups_.size()) return;
  added_ = 0;
  exchange_->Flush(static_cast<uint64_t>(clock));
}

std::vector<size_t> StageExchange::BytesOf(int group) const {
  std::vector<size_t> bytes;
  for (int param : groups_.at(group)) bytes.push_back(params_->gradient(param).size_bytes());
  return bytes;
}

// The version changes before the values do: no op asks for either before on_values.
void StageExchange::Pull(int64_t clock, int group) {
  CHECK(client_) << "stage " << stage_ << " has no parameter servers";
  const std::vector<int>& params = groups_.at(group);
  {
    MutexLock lock(&mutex_);
    missing_values_[{clock, group}] = params.size();
  }
  for (int param : params) {
    params_->MarkUpdated(param, clock + 1);
    client_->Pull(static_cast<uint64_t>(clock), param, params_->values(param, clock + 1));
  }
}

std::optional<int> StageExchange::EndOne(Missing* missing, int64_t clock, int param) {
  const int group = group_of_.at(param);
  MutexLock lock(&mutex_);
  if (--missing->at({clock, group}) > 0) return std::nullopt;
  missing->erase({clock, group});
  return group;
}

void StageExchange::OnExchanged(int64_t clock, int param) {
  if (const auto group = EndOne(&missing_, clock, param)) callbacks_.on_exchanged(clock, stage_, *group);
}

void StageExchange::OnValues(int64_t clock, int param) {
  if (const auto group = EndOne(&missing_values_, clock, param)) callbacks_.on_values(clock, stage_, *group);
}

}  // namespace hp

#include "engine/stage_exchange.h"

#include "glog/logging.h"

namespace hp {

StatusOr<std::unique_ptr<StageExchange>> StageExchange::Create(const NodeModel& model, int stage, ParamStore* params,
                                                               const Connect& connect, Callbacks callbacks) {
  std::unique_ptr<StageExchange> made(new StageExchange(stage, params, std::move(callbacks)));
  StageExchange* const self = made.get();
  made->FindUnits(model);
  if (made->params_of_.empty()) return std::unique_ptr<StageExchange>();
  HP_ASSIGN_OR_RETURN(
      made->exchange_,
      connect(
          {.on_exchanged = [self](uint64_t clock, int param) { self->OnExchanged(static_cast<int64_t>(clock), param); },
           .on_failure = made->callbacks_.on_failure}));
  return made;
}

void StageExchange::FindUnits(const NodeModel& model) {
  const std::vector<UnitPlan>& units = model.plan().units;
  for (int unit = 0; unit < static_cast<int>(units.size()); ++unit) {
    if (!units[unit].exchanged || units[unit].stage != stage_) continue;
    for (int param : model.any_net(true).steps()[model.unit_steps()[unit]].params) {
      if (params_->gradient(param).empty()) continue;  // frozen
      params_of_[unit].push_back(param);
      unit_of_[param] = unit;
    }
    CHECK(params_of_.contains(unit)) << "unit " << unit << " learns nothing";
  }
}

// All of a unit's parameters count as under way before the first of them is given away: it may be back at once.
void StageExchange::Add(int64_t clock, int unit) {
  const std::vector<int>& params = params_of_.at(unit);
  {
    MutexLock lock(&mutex_);
    missing_[{clock, unit}] = params.size();
  }
  for (int param : params) exchange_->Add(static_cast<uint64_t>(clock), param, params_->gradient(param));
  if (++added_ < params_of_.size()) return;
  added_ = 0;
  exchange_->Flush(static_cast<uint64_t>(clock));
}

void StageExchange::OnExchanged(int64_t clock, int param) {
  const int unit = unit_of_.at(param);
  {
    MutexLock lock(&mutex_);
    if (--missing_.at({clock, unit}) > 0) return;
    missing_.erase({clock, unit});
  }
  callbacks_.on_exchanged(clock, stage_, unit);
}

}  // namespace hp

#include "engine/stage_exchange.h"

#include "glog/logging.h"

namespace hp {

ExchangedUnits ExchangedUnitsOf(const NodeModel& model, int stage, const ParamStore& params) {
  ExchangedUnits units;
  const std::vector<UnitPlan>& plans = model.plan().units;
  for (int unit = 0; unit < static_cast<int>(plans.size()); ++unit) {
    if (!plans[unit].exchanged || plans[unit].stage != stage) continue;
    for (int param : model.any_net(true).steps()[model.unit_steps()[unit]].params) {
      if (!params.param(param).frozen()) units[unit].push_back(param);
    }
    CHECK(units.contains(unit)) << "unit " << unit << " learns nothing";
  }
  return units;
}

StageExchange::StageExchange(int stage, ExchangedUnits units, ParamStore* params, Callbacks callbacks)
    : stage_(stage), params_(params), callbacks_(std::move(callbacks)), units_(std::move(units)) {
  for (const auto& [unit, of_unit] : units_) {
    for (int param : of_unit) unit_of_[param] = unit;
  }
}

StatusOr<std::unique_ptr<StageExchange>> StageExchange::Create(int stage, ExchangedUnits units, ParamStore* params,
                                                               const Connect& connect, Callbacks callbacks) {
  if (units.empty()) return std::unique_ptr<StageExchange>();
  std::unique_ptr<StageExchange> made(new StageExchange(stage, std::move(units), params, std::move(callbacks)));
  StageExchange* const self = made.get();
  const auto on_exchanged = [self](uint64_t clock, int param) {
    self->OnExchanged(static_cast<int64_t>(clock), param);
  };
  HP_ASSIGN_OR_RETURN(made->exchange_,
                      connect({.on_exchanged = on_exchanged, .on_failure = made->callbacks_.on_failure}));
  return made;
}

// All of a unit's parameters count as under way before the first of them is given away: it may be back at once.
void StageExchange::Add(int64_t clock, int unit) {
  const std::vector<int>& params = units_.at(unit);
  {
    MutexLock lock(&mutex_);
    missing_[{clock, unit}] = params.size();
  }
  for (int param : params) exchange_->Add(static_cast<uint64_t>(clock), param, params_->gradient(param));
  if (++added_ < units_.size()) return;
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

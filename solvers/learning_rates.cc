#include "solvers/learning_rates.h"

#include "solvers/lr_policy.h"

#include <iterator>

namespace hp {

void LearningRates::Change(int64_t clock, float base_lr) {
  MutexLock lock(&mutex_);
  changes_[clock] = base_lr;
}

float LearningRates::At(int64_t clock) const {
  float base_lr = solver_.base_lr();
  {
    MutexLock lock(&mutex_);
    const auto next = changes_.upper_bound(clock);
    if (next != changes_.begin()) base_lr = std::prev(next)->second;
  }
  return LearningRate(solver_, base_lr, static_cast<int>(clock));
}

std::map<int64_t, float> LearningRates::ChangesUntil(int64_t clock) const {
  MutexLock lock(&mutex_);
  return {changes_.begin(), changes_.upper_bound(clock)};
}

}  // namespace hp

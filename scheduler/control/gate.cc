#include "scheduler/control/gate.h"

#include <utility>

namespace hp {

void Gate::Run(std::function<void()> event) {
  {
    MutexLock lock(&mutex_);
    if (!open_) {
      waiting_.push_back(std::move(event));
      return;
    }
  }
  event();
}

void Gate::Open() {
  for (;;) {
    std::vector<std::function<void()>> events;
    {
      MutexLock lock(&mutex_);
      open_ = waiting_.empty();
      events.swap(waiting_);
    }
    if (events.empty()) return;
    for (const auto& event : events) event();
  }
}

}  // namespace hp

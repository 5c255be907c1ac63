#include "backend/cuda/engine_chooser.h"

#include "glog/logging.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace hp {
namespace {

/// Of a candidate that was not timed.
constexpr double kNoTime = std::numeric_limits<double>::infinity();

/// What was found out about the candidates, in their order.
struct Trial {
  std::vector<double> ms;
  std::optional<size_t> without_memory;  ///< the first that there was no memory to try
  Status last_error;
};

StatusOr<Trial> TimeAll(size_t candidates, const EngineChooser::Timer& time) {
  Trial trial;
  for (size_t i = 0; i < candidates; ++i) {
    const StatusOr<double> ms = time(i);
    trial.ms.push_back(ms.ok() ? *ms : kNoTime);
    if (ms.ok()) continue;
    trial.last_error = ms.status();
    if (ms.status().code() == StatusCode::kResourceExhausted) {
      if (!trial.without_memory) trial.without_memory = i;
    } else if (ms.status().code() != StatusCode::kFailedPrecondition) {
      return ms.status();
    }
  }
  return trial;
}

}  // namespace

EngineChooser::EngineChooser(EngineChoices* choices, std::string gpu, std::string library)
    : choices_(choices), gpu_(std::move(gpu)), library_(std::move(library)) {}

std::optional<EngineChoice> EngineChooser::Kept(const std::string& operation) const {
  return choices_->Find(KeyOf(operation));
}

StatusOr<size_t> EngineChooser::Choose(const std::string& operation, const std::vector<EngineChoice>& candidates,
                                       const Timer& time) {
  CHECK(!candidates.empty()) << operation;
  if (candidates.size() == 1) {
    choices_->Keep(KeyOf(operation), candidates[0], {});
    return 0;
  }
  HP_ASSIGN_OR_RETURN(const Trial trial, TimeAll(candidates.size(), time));
  const double least = *std::min_element(trial.ms.begin(), trial.ms.end());
  if (least == kNoTime) {
    if (!trial.without_memory) return trial.last_error;
    LOG(WARNING) << operation << ": engines are not timed: " << trial.last_error.message();
    choices_->Keep(KeyOf(operation), candidates[*trial.without_memory], {});
    return *trial.without_memory;
  }
  const auto good = [least](double ms) { return ms <= least * (1 + kLeastGain); };
  const auto best = std::find_if(trial.ms.begin(), trial.ms.end(), good);
  const auto index = static_cast<size_t>(best - trial.ms.begin());
  const double first = trial.ms[0] == kNoTime ? 0 : trial.ms[0];
  choices_->Keep(KeyOf(operation), candidates[index], {.chosen_ms = *best, .heuristics_ms = first});
  VLOG(1) << operation << ": engine " << candidates[index].engine << ", " << index + 1 << " of " << candidates.size()
          << ", takes " << *best << " ms, the first " << first << " ms";
  return index;
}

}  // namespace hp

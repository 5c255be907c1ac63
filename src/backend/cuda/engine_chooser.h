#pragma once

#include "backend/engine_choices.h"
#include "hp/status.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// Chooses among the engines of a library by timing each of them once, and keeps the choice, so that later starts time
/// nothing and have the same bits. It knows neither the library nor a GPU: whoever asks makes the candidates and times
/// them. One thread at a time.
///
///   if (const auto kept = chooser.Kept(operation)) return MakeEngine(*kept);
///   HP_ASSIGN_OR_RETURN(const size_t best, chooser.Choose(operation, candidates, time));
class EngineChooser {
 public:
  /// Milliseconds of a candidate, by its index. @return kFailedPrecondition: the library does not run it here;
  /// kResourceExhausted: no memory to try it in; any other error ends the choice.
  using Timer = std::function<StatusOr<double>(size_t candidate)>;

  /// How much faster another engine must be to be taken instead of an earlier one. Less than that is noise as often as
  /// not, and two starts should rather agree.
  static constexpr double kLeastGain = 0.03;

  /// @param choices must outlive the chooser. @param gpu, library as in EngineKey.
  EngineChooser(EngineChoices* choices, std::string gpu, std::string library);

  /// The engine that was chosen for `operation` on such a GPU by this version of the library; nothing: none yet.
  std::optional<EngineChoice> Kept(const std::string& operation) const;

  /// Times the candidates one after the other, and keeps the first whose time is within kLeastGain of the least. What
  /// cannot be run here is passed over, and so is what there is no memory to try; where that is so of all of them, the
  /// first one of those is kept, untimed. A single candidate is not timed either.
  /// @param candidates in the order of the library's heuristics, at least one (CHECK).
  /// @return the index of the one that is kept. The last error of `time`: none of them can be run, or it has ended the
  /// choice; nothing is kept then.
  StatusOr<size_t> Choose(const std::string& operation, const std::vector<EngineChoice>& candidates, const Timer& time);

 private:
  EngineKey KeyOf(const std::string& operation) const { return {operation, gpu_, library_}; }

  EngineChoices* const choices_;
  const std::string gpu_, library_;
};

}  // namespace hp

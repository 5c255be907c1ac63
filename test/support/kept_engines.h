#pragma once

#include "backend/engine_choices.h"

#include <map>
#include <optional>

namespace hp::test {

/// Choices in memory.
class KeptEngines : public EngineChoices {
 public:
  struct Entry {
    EngineChoice choice;
    EngineTimes times;
  };
  std::optional<EngineChoice> Find(const EngineKey& key) override {
    const auto found = entries.find(key);
    return found == entries.end() ? std::nullopt : std::optional(found->second.choice);
  }
  void Keep(const EngineKey& key, const EngineChoice& choice, const EngineTimes& times) override {
    entries[key] = {choice, times};
    ++kept;
  }

  std::map<EngineKey, Entry> entries;
  int kept = 0;  ///< calls of Keep
};

}  // namespace hp::test

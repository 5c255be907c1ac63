#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Which engine of a library computes an operation, exactly enough to make it again: one engine with other knobs adds
/// in another order.
struct EngineChoice {
  int64_t engine = 0;                              ///< the library's number of it
  std::vector<std::pair<int64_t, int64_t>> knobs;  ///< (type, value), as the library lists them

  bool operator==(const EngineChoice&) const = default;
};

/// What a choice is good for. Any text, but no line breaks.
struct EngineKey {
  std::string operation;  ///< what is computed: kind, sizes, types and layouts
  std::string gpu;        ///< kind of GPU: "NVIDIA H200"
  std::string library;    ///< name and version: "cuDNN 9.10.2"

  auto operator<=>(const EngineKey&) const = default;
};

/// What was measured when a choice was made, in milliseconds; 0: nothing. For people: nothing is decided by it later.
struct EngineTimes {
  double chosen_ms = 0;
  double heuristics_ms = 0;  ///< of the engine that the library's heuristics would take
};

/// Engines that were chosen by timing them. What timing decides is not the same tomorrow, so choices are kept and used
/// again: the bits that they lead to stay the same. One thread at a time.
class EngineChoices {
 public:
  virtual ~EngineChoices() = default;
  /// What was kept under `key`; nothing: no choice was made yet.
  virtual std::optional<EngineChoice> Find(const EngineKey& key) = 0;
  /// Keeps a choice, instead of one that was kept under `key` before.
  virtual void Keep(const EngineKey& key, const EngineChoice& choice, const EngineTimes& times) = 0;
};

}  // namespace hp

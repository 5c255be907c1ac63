#include "input/label_counts.h"

#include <algorithm>

namespace hp {

std::vector<float> CountLabels(std::span<const float> labels, int64_t of_row, std::optional<int> ignored) {
  std::vector<float> counts(labels.size() / static_cast<size_t>(of_row));
  for (size_t row = 0; row < counts.size(); ++row) {
    const std::span<const float> own = labels.subspan(row * of_row, of_row);
    const auto counted = [&](float label) { return !ignored || label != static_cast<float>(*ignored); };
    counts[row] = static_cast<float>(std::count_if(own.begin(), own.end(), counted));
  }
  return counts;
}

}  // namespace hp

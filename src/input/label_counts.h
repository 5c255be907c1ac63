#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hp {

/// How many labels of each row are not `ignored`: what BatchContext::batch_labels holds where a row has several.
/// @param labels [rows, of_row].
std::vector<float> CountLabels(std::span<const float> labels, int64_t of_row, std::optional<int> ignored);

}  // namespace hp

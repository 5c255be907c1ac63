#include "layers/labels.h"

#include <cmath>

namespace hp {

Status CheckLabels(std::span<const float> labels, int64_t classes, std::optional<int> ignore_label) {
  for (size_t row = 0; row < labels.size(); ++row) {
    const float label = labels[row];
    if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) continue;
    if (ignore_label && label == static_cast<float>(*ignore_label)) continue;
    return InvalidArgument("label %.9g of row %zu is not in 0..%lld", label, row, static_cast<long long>(classes - 1));
  }
  return OkStatus();
}

}  // namespace hp

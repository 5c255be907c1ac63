#include "layers/labels.h"

#include <cmath>

namespace hp {

Status CheckLabels(std::span<const float> labels, const LabelRule& rule) {
  if (rule.classes == 0) return OkStatus();
  for (size_t row = 0; row < labels.size(); ++row) {
    const float label = labels[row];
    if (label >= 0 && label < static_cast<float>(rule.classes) && label == std::floor(label)) continue;
    if (rule.ignore_label && label == static_cast<float>(*rule.ignore_label)) continue;
    return InvalidArgument("label %.9g of row %zu is not in 0..%lld", label, row,
                           static_cast<long long>(rule.classes - 1));
  }
  return OkStatus();
}

}  // namespace hp

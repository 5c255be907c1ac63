#include "layers/labels.h"

#include "base/format.h"

#include <cmath>

namespace hp {

Status CheckLabels(std::span<const float> labels, const LabelRule& rule, int64_t of_row) {
  if (rule.classes == 0) return OkStatus();
  for (size_t i = 0; i < labels.size(); ++i) {
    const float label = labels[i];
    if (label >= 0 && label < static_cast<float>(rule.classes) && label == std::floor(label)) continue;
    if (rule.ignore_label && label == static_cast<float>(*rule.ignore_label)) continue;
    const int64_t row = static_cast<int64_t>(i) / of_row, number = static_cast<int64_t>(i) % of_row;
    const std::string which = of_row == 1 ? "" : Format(" (number %lld)", static_cast<long long>(number));
    return InvalidArgument("label %.9g%s of row %lld is not in 0..%lld", label, which.c_str(),
                           static_cast<long long>(row), static_cast<long long>(rule.classes - 1));
  }
  return OkStatus();
}

Status CheckBatchLabels(std::span<const float> labels, std::span<const LabelRule> rules, int64_t of_row, int64_t batch,
                        int64_t first_row) {
  for (const LabelRule& rule : rules) {
    HP_RETURN_IF_ERROR(CheckLabels(labels, rule, of_row)
                           .Prepend(Format("layer \"%s\", batch %lld, rows from %lld", rule.layer.c_str(),
                                           static_cast<long long>(batch), static_cast<long long>(first_row))));
  }
  return OkStatus();
}

}  // namespace hp

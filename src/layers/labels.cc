#include "layers/labels.h"

#include "backend/label.h"
#include "base/format.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hp {

Status CheckLabels(std::span<const float> labels, const LabelRule& rule, int64_t of_row) {
  if (rule.classes == 0) return OkStatus();
  const int64_t rows = std::ssize(labels) / of_row, of_rule = std::ssize(rule.columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t number = 0; number < of_rule; ++number) {
      const float label = labels[row * of_row + rule.columns[number]];
      if (label >= 0 && label < static_cast<float>(rule.classes) && label == std::floor(label)) continue;
      if (rule.ignore_label && label == static_cast<float>(*rule.ignore_label)) continue;
      const std::string which = of_rule == 1 ? "" : Format(" (number %lld)", static_cast<long long>(number));
      const bool whole = label == std::floor(label);
      return InvalidArgument("label %.9g%s of row %lld is %s 0..%lld", label, which.c_str(),
                             static_cast<long long>(row), whole ? "not in" : "not a whole number in",
                             static_cast<long long>(rule.classes - 1));
    }
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

namespace {

float NumberOf(std::span<const float> row, const LabelNumber& number) {
  if (!number.is_count) return row[number.columns[0]];
  const auto counts = [&](int64_t column) {
    return !number.ignore_label || LabelOf(row[column]) != *number.ignore_label;
  };
  return static_cast<float>(std::count_if(number.columns.begin(), number.columns.end(), counts));
}

}  // namespace

std::vector<float> NumbersOfRows(std::span<const float> labels, int64_t of_row,
                                 const std::vector<LabelNumber>& numbers) {
  std::vector<float> of_rows;
  of_rows.reserve(labels.size() / of_row * numbers.size());
  for (size_t begin = 0; begin < labels.size(); begin += of_row) {
    for (const LabelNumber& number : numbers) of_rows.push_back(NumberOf(labels.subspan(begin, of_row), number));
  }
  return of_rows;
}

}  // namespace hp

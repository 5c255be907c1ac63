#include "layers/labels.h"

#include "backend/label.h"
#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace hp {
namespace {

/// The error of the first label that `accepts` is false of. @param wrong_row which it is in.
template <typename Accepts>
Status CheckEach(std::span<const float> labels, const LabelRule& rule, int64_t of_row, int64_t* wrong_row,
                 const Accepts& accepts) {
  if (rule.classes == 0) return OkStatus();
  const int64_t rows = std::ssize(labels) / of_row, of_rule = std::ssize(rule.columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t number = 0; number < of_rule; ++number) {
      const float label = labels[row * of_row + rule.columns[number]];
      if (accepts(label)) continue;
      const std::string which = of_rule == 1 ? "" : Format(" (number %lld)", static_cast<long long>(number));
      const bool whole = label == std::floor(label);
      *wrong_row = row;
      return InvalidArgument("label %.9g%s of row %lld is %s 0..%lld", label, which.c_str(),
                             static_cast<long long>(row), whole ? "not in" : "not a whole number in",
                             static_cast<long long>(rule.classes - 1));
    }
  }
  return OkStatus();
}

Status CheckClasses(std::span<const float> labels, const LabelRule& rule, int64_t of_row, int64_t* wrong_row) {
  return CheckEach(labels, rule, of_row, wrong_row, [&rule](float label) {
    if (label >= 0 && label < static_cast<float>(rule.classes) && label == std::floor(label)) return true;
    return rule.ignore_label && label == static_cast<float>(*rule.ignore_label);
  });
}

/// The same of labels as an op reads them, cut to a whole number (LabelOf).
Status CheckRead(std::span<const float> labels, const LabelRule& rule, int64_t of_row, int64_t* wrong_row) {
  return CheckEach(labels, rule, of_row, wrong_row, [&rule](float label) {
    const int64_t read = LabelOf(label);
    return (read >= 0 && read < rule.classes) || (rule.ignore_label && read == *rule.ignore_label);
  });
}

Status CheckRows(std::span<const float> labels, const LabelRule& rule, int64_t of_row, int64_t* wrong_row) {
  if (!rule.wrong_counts) return CheckClasses(labels, rule, of_row, wrong_row);
  return CheckEach(labels, rule, of_row, wrong_row, [](float label) { return LabelOf(label) != INT64_MIN; });
}

}  // namespace

Status CheckBatchLabels(const BatchLabels& labels, std::span<const LabelRule> rules, int64_t of_row) {
  for (const LabelRule& rule : rules) {
    const auto of_batch = [&](Status status, int64_t row) {
      status = status.Prepend(Format("layer \"%s\", batch %lld, rows from %lld", rule.layer.c_str(),
                                     static_cast<long long>(labels.batch), static_cast<long long>(labels.first_row)));
      return labels.record == nullptr ? status : status.Prepend(labels.record(row));
    };
    int64_t row = 0;
    if (const Status status = CheckRows(labels.values, rule, of_row, &row); !status.ok()) return of_batch(status, row);
    if (!rule.wrong_counts) continue;
    const Status wrong = CheckRead(labels.values, rule, of_row, &row);
    if (wrong.ok()) continue;
    LOG_FIRST_N(WARNING, 1) << of_batch(wrong, row).message() << ": such labels count as wrong";
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

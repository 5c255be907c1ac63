#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace hp {

/// The labels of some rows of a batch, told ahead of their images. Valid during the call that has them.
struct BatchLabels {
  int64_t batch = 0;              ///< its number, counted as the caller says
  int64_t first_row = 0;          ///< of the global batch
  std::span<const float> values;  ///< [rows, labels of a row]
  /// Where a row of these comes from: "list.txt:18: cat.png". Null: nobody knows.
  std::function<std::string(int64_t row)> record = nullptr;
};

}  // namespace hp

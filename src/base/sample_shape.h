#pragma once

#include "base/shape.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace hp {

/// What a source of data yields of one sample: the shapes of its tops without axis 0, the rows. A Shape is one, with a
/// label for each row.
struct SampleShape {
  SampleShape() = default;
  SampleShape(Shape data, Shape label = {}) : data(std::move(data)), label(std::move(label)) {}
  SampleShape(std::initializer_list<int64_t> dims) : data(dims) {}

  Shape data;   ///< [C, H, W] of top 0, after its transformation
  Shape label;  ///< of the other tops, where a row has several labels, such as [1, H, W]; of rank 0: it has one

  /// Labels of a row.
  int64_t labels() const { return label.count(); }
  /// "3 10 10", or with several labels "3 10 10, labels 1 10 10".
  std::string ToString() const {
    return label.rank() == 0 ? data.ToString() : data.ToString() + ", labels " + label.ToString();
  }
  bool operator==(const SampleShape&) const = default;
};

}  // namespace hp

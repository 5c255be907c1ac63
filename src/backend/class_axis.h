#pragma once

#include "tensor/tensor.h"

#include <cstdint>

namespace hp {

/// Scores as [rows][classes][pixels], the classes along one axis: there is a label for each row and pixel, in this
/// order, and each sample has some of the rows.
struct ClassAxis {
  ClassAxis(const Shape& scores, int axis)
      : rows(scores.count(0, axis)),
        classes(scores[axis]),
        pixels(scores.count(axis + 1)),
        labels(scores.count(1, axis) * pixels) {}

  int64_t rows, classes, pixels;
  int64_t labels;  ///< of a sample
};

}  // namespace hp

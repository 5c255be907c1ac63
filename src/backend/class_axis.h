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
        outer(scores.count(1, axis)),
        labels(outer * pixels) {}

  int64_t rows, classes, pixels;
  int64_t outer;   ///< elements of a sample in front of the class axis; 1 if that is axis 1
  int64_t labels;  ///< of a sample
};

}  // namespace hp

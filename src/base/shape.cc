#include "base/shape.h"

#include <algorithm>

namespace hp {

bool Shape::InBounds() const {
  int64_t product = 1;
  for (int64_t dim : dims_) {
    if (dim < 0 || dim > kMaxDim) return false;
    if (__builtin_mul_overflow(product, std::max<int64_t>(dim, 1), &product) || product > kMaxElements) return false;
  }
  return true;
}

int64_t Shape::count(int begin, int end) const {
  if (end < 0) end = rank();
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= dims_[axis];
  return product;
}

Shape Shape::With(int axis, int64_t value) const {
  Shape shape = *this;
  shape.dims_[axis] = value;
  return shape;
}

std::string Shape::ToString() const {
  std::string text;
  for (int64_t dim : dims_) text += (text.empty() ? "" : " ") + std::to_string(dim);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.ToString(); }

}  // namespace hp

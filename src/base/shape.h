#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

namespace hp {

/// The dimensions of a tensor, outermost first: [N, C, H, W] of an image batch, [N, K] of a fully connected input.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const { return dims_[axis]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  /// dims[axis], or 1 beyond the last axis (Caffe's legacy reading of [N, K] as [N, K, 1, 1]).
  int64_t dim(int axis) const { return axis < rank() ? dims_[axis] : 1; }
  /// The product of dims[begin, end); of all dims by default; 1 for a scalar.
  int64_t count(int begin = 0, int end = -1) const;
  /// The same with dims[axis] = value.
  Shape With(int axis, int64_t value) const;
  /// A negative axis counts from the end, as in Caffe.
  int CanonicalAxis(int axis) const { return axis < 0 ? axis + rank() : axis; }
  std::string ToString() const;  ///< "32 3 227 227"

  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace hp

#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

namespace hp {

/// The dimensions of a tensor, outermost first: [N, C, H, W] of an image batch, [N, K] of a fully connected input.
/// A value without storage. Rank 0 is a scalar with one element; a dim of 0 makes a tensor without elements. Axes are
/// not checked against the rank unless a method says what it does beyond it.
class Shape {
 public:
  Shape() = default;
  /// The largest dim, and the most elements, of a tensor that may be computed with: dims that libraries count in 32
  /// bits, and an address space (2^47 bytes) of float32.
  static constexpr int64_t kMaxDim = 2147483647, kMaxElements = int64_t{1} << 45;

  /// Shape{32, 3, 227, 227}; dims are at least 0.
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }  ///< number of axes
  int64_t operator[](int axis) const { return dims_[axis]; }   ///< 0 <= axis < rank()
  const std::vector<int64_t>& dims() const { return dims_; }
  /// dims[axis], or 1 beyond the last axis (Caffe's legacy reading of [N, K] as [N, K, 1, 1]).
  int64_t dim(int axis) const { return axis < rank() ? dims_[axis] : 1; }
  /// Whether no dim is negative or above kMaxDim, and there are at most kMaxElements. Shapes that files and peers give
  /// are checked with it before anything is computed from them: then no number of elements or bytes overflows.
  bool InBounds() const;
  /// The product of dims[begin, end), the number of elements by default; 1 for an empty range. end < 0: up to the last.
  /// Not checked for overflow.
  int64_t count(int begin = 0, int end = -1) const;
  /// A copy with dims[axis] = value; 0 <= axis < rank().
  Shape With(int axis, int64_t value) const;
  /// `axis` counted from 0: a negative one counts from the end, as in Caffe (-1 is the last). The result may be out of
  /// range; callers check it.
  int CanonicalAxis(int axis) const { return axis < 0 ? axis + rank() : axis; }
  std::string ToString() const;  ///< "32 3 227 227"

  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace hp

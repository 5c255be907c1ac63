#pragma once

#include "base/host_device.h"
#include "base/shape.h"

#include <cstddef>
#include <cstdint>

namespace hp {

/// `length` elements of each of some pieces, which lie strides of elements apart. Several with the same number of
/// pieces are copied together: on a GPU by one kernel.
struct PieceCopy {
  int64_t length = 0;
  const std::byte* from = nullptr;
  int64_t from_stride = 0;
  std::byte* to = nullptr;
  int64_t to_stride = 0;
};

/// Copies of equally long runs of elements between two dense tensors: for each index of `axes` loops, the last of which
/// is the innermost, `length` elements from the sum of index * from_stride to that of index * to_stride.
struct StridedCopy {
  static constexpr int kMostAxes = 32;  ///< Caffe's limit
  int axes = 0;
  int64_t sizes[kMostAxes] = {}, from_stride[kMostAxes] = {}, to_stride[kMostAxes] = {};
  int64_t length = 1;

  /// Where run `run` in [0, runs()) begins, in elements.
  struct Place {
    int64_t from = 0, to = 0;
  };
  HP_HOST_DEVICE Place PlaceOf(int64_t run) const {
    Place at;
    for (int a = axes - 1; a > 0; --a) {
      const int64_t rest = run / sizes[a], index = run - rest * sizes[a];
      at.from += index * from_stride[a], at.to += index * to_stride[a];
      run = rest;
    }
    if (axes > 0) at.from += run * from_stride[0], at.to += run * to_stride[0];
    return at;
  }
  int64_t runs() const {
    int64_t runs = 1;
    for (int a = 0; a < axes; ++a) runs *= sizes[a];
    return runs;
  }
  /// The copy back.
  StridedCopy Reversed() const {
    StridedCopy back = *this;
    for (int a = 0; a < axes; ++a) back.from_stride[a] = to_stride[a], back.to_stride[a] = from_stride[a];
    return back;
  }
  void AddLoop(int64_t size, int64_t from, int64_t to) {
    sizes[axes] = size, from_stride[axes] = from, to_stride[axes] = to;
    ++axes;
  }
};

/// Of the elements [0, box[a]) of each axis of a dense tensor of shape `whole` to one of shape `box`, of at most
/// StridedCopy::kMostAxes axes; axis 0 is copied whole. Axes of which all is copied become one with their neighbours.
inline StridedCopy CopyOfBox(const Shape& whole, const Shape& box) {
  StridedCopy copy;
  int axis = whole.rank();
  while (axis > 1 && whole[axis - 1] == box[axis - 1]) --axis;  // those in one run
  if (axis > 1) --axis;
  copy.length = box.count(axis);
  for (int begin = 0; begin < axis;) {
    int end = begin + 1;
    while (end < axis && whole[end] == box[end]) ++end;
    copy.AddLoop(box.count(begin, end), whole.count(end), box.count(end));
    begin = end;
  }
  return copy;
}

}  // namespace hp

#pragma once

#include "base/shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// What the sources of a phase yield of one sample: the shapes of their tops without axis 0, the rows (SourceTop says
/// which top is which). A Shape is one, with a label for each row.
///
/// It also says where these lie in one piece of memory, for any number of rows: [rows, data], right behind it [rows,
/// label] where a row has several labels, then each of the others, which begin at multiples of 64 bytes.
struct SampleShape {
  SampleShape() = default;
  SampleShape(Shape data, Shape label = {}, std::vector<Shape> others = {})
      : data(std::move(data)), label(std::move(label)), others(std::move(others)) {}
  SampleShape(std::initializer_list<int64_t> dims) : data(dims) {}

  Shape data;                 ///< of the first that is not the labels; of images [C, H, W], after their transformation
  Shape label;                ///< of the labels: of rank 0 or [1] where a row has one, else such as [1, H, W]
  std::vector<Shape> others;  ///< of the rest, in their order; of rank 0: [rows]

  /// Labels of a row.
  int64_t labels() const { return label.count(); }
  bool several_labels() const { return labels() > 1; }
  static constexpr int64_t kLeastRaw = 10;
  /// Whether a sample is one image [C, H, W] and at most one label: what a device can make of raw images
  /// (tensor/raw_images.h), which take less memory from 10 values on.
  bool may_be_raw() const {
    return data.rank() == 3 && data.count() >= kLeastRaw && others.empty() && !several_labels();
  }
  /// Where [rows, others[i]] begins, counted in floats.
  int64_t OtherAt(size_t i, int64_t rows) const { return EndOf(i, rows) + Padding(EndOf(i, rows)); }
  /// Whether each of its shapes is (Shape::InBounds).
  bool InBounds() const {
    return data.InBounds() && label.InBounds() &&
           std::all_of(others.begin(), others.end(), [](const Shape& other) { return other.InBounds(); });
  }
  /// How many floats all of it takes.
  int64_t Floats(int64_t rows) const { return EndOf(others.size(), rows); }

  /// "3 10 10", with several labels "3 10 10, labels 1 10 10", with others "3 10 10, 5, a number".
  std::string ToString() const {
    std::string text = data.ToString();
    if (several_labels()) text += ", labels " + label.ToString();
    for (const Shape& other : others) text += other.rank() == 0 ? ", a number" : ", " + other.ToString();
    return text;
  }
  bool operator==(const SampleShape&) const = default;

 private:
  static int64_t Padding(int64_t floats) { return (16 - floats % 16) % 16; }
  /// Where the first `count` others end.
  int64_t EndOf(size_t count, int64_t rows) const {
    int64_t end = rows * (data.count() + (several_labels() ? labels() : 0));
    for (size_t i = 0; i < count; ++i) end += Padding(end) + rows * others[i].count();
    return end;
  }
};

}  // namespace hp

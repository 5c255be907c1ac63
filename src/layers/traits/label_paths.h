#pragma once

#include "base/shape.h"
#include "hp/status.h"
#include "layers/traits/layer_types.h"
#include "proto/phase.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace caffe {
class NetParameter;
}

namespace hp {

/// How labels come to a layer from a source: unchanged, but perhaps by layers that take some of them or shape them anew
/// (Slice, Reshape, Flatten, Split). So it is known what they are before the layers have run.
struct LabelPath {
  int reader = 0;                          ///< index in the net
  bool classes = true;                     ///< it takes them for classes; else they are targets that it counts
  std::pair<int, int> source;              ///< (layer, top) that they are from
  std::vector<std::pair<int, int>> steps;  ///< (layer, top), in their order

  bool SameLabels(const LabelPath& other) const {
    return classes == other.classes && source == other.source && steps == other.steps;
  }
};

/// A number that is told of each row of a batch ahead of it: its only label, or how many of several count, or of
/// targets.
struct LabelNumber {
  std::vector<int64_t> columns;     ///< which labels of the row
  std::optional<int> ignore_label;  ///< of a count: those that do not count
  bool is_count = false;
};

/// Of all layers of a phase that take labels for classes, or count targets, but those whose labels are computed
/// otherwise; in their order.
/// @param net unfiltered, checked or not.
std::vector<LabelPath> LabelPathsOf(const caffe::NetParameter& net, Phase phase, const LayerTypes& types);

/// Which elements of a row of its source the labels are, in their order. @param row the shape of such a row.
/// @return kInvalidArgument: a layer on the path can't take its shape (named).
StatusOr<std::vector<int64_t>> ElementsOf(const LabelPath& path, const caffe::NetParameter& net, const Shape& row,
                                          const LayerTypes& types);

}  // namespace hp

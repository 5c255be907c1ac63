#pragma once

#include "layers/traits/layer_types.h"

namespace hp {

constexpr int kMostAxes = 32;  ///< of a blob: Caffe's kMaxBlobAxes

// Checks of LayerTraits that hold for every type. All return kInvalidArgument, naming the layer and the field.

/// Checks the numbers of bottoms and tops, typed parameters that Caffe refuses or that are mistakes, loss weights, and
/// Caffe's fields that are known but not supported (inline blobs), say nothing (share_mode without a name), or do not
/// fit the bottoms (propagate_down).
Status CheckCommonFields(const LayerType& type, const caffe::LayerParameter& param);

/// Checks that a top has a bottom's name only where the layer can work in place, and only top 0 that of bottom 0.
Status CheckInPlace(const LayerType& type, const caffe::LayerParameter& param);

/// Checks that a shape is in bounds (Shape::InBounds). @param what it belongs to: "top".
Status CheckSize(const caffe::LayerParameter& param, const char* what, const Shape& shape);

/// Checks a number that the prototxt gives for a dim: 1 to Shape::kMaxDim. @param field "data_param { batch_size".
Status CheckDim(const caffe::LayerParameter& param, const char* field, uint32_t value);

/// LayerType::elements of a layer that passes on all of its bottom, in its order.
std::vector<int64_t> AllElements(const caffe::LayerParameter& param, const Shape& in, int top);

}  // namespace hp

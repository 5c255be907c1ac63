#pragma once

#include "hp/status.h"
#include "layers/traits/window_fields.h"

#include <cstdint>

namespace caffe {
class ConcatParameter;
class LayerParameter;
class LossParameter;
}  // namespace caffe

namespace hp {

// Fields that a layer's shapes and its op both go by, read in one place: Caffe has several ways to write most of them.

/// A convolution_param, but for its fillers.
struct ConvolutionFields {
  int64_t num_output = 0, group = 1;
  HeightWidth kernel, stride, pad, dilation;
  bool bias = true;
};
/// @return kInvalidArgument: names the layer and the field.
StatusOr<ConvolutionFields> ReadConvolution(const caffe::LayerParameter& param);

/// A pooling_param.
struct PoolingFields {
  bool average = false;  ///< else the maximum
  bool global = false;   ///< kernel = the input's size; `kernel` says nothing
  bool ceil = true;      ///< round the output size up, as Caffe does unless round_mode says FLOOR
  HeightWidth kernel, stride, pad;
};
/// @return kInvalidArgument: names the layer and the field.
StatusOr<PoolingFields> ReadPooling(const caffe::LayerParameter& param);

/// The axis along which the bottoms are put side by side, as written: negative ones count from the end.
int ConcatAxis(const caffe::ConcatParameter& param);

/// What a loss is divided by.
enum class LossNormalization {
  kFull,       ///< rows
  kValid,      ///< rows whose label is not ignored
  kBatchSize,  ///< samples of the batch
  kNone,
};
/// Caffe's rule: `normalization` where it is set, else the older `normalize` (true: VALID, false: BATCH_SIZE).
LossNormalization NormalizationOf(const caffe::LossParameter& param);

}  // namespace hp

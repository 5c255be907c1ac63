#pragma once

#include "base/shape.h"
#include "hp/status.h"
#include "layers/traits/window_fields.h"

#include <cstdint>
#include <span>

namespace caffe {
class ConcatParameter;
class FillerParameter;
class LayerParameter;
class LossParameter;
}  // namespace caffe

namespace hp {

// Fields that both a layer's shapes (its row) and its op (src/layers) depend on, read in one place, because Caffe has
// several ways to write most of them. Sizes are in pixels.

/// The window of a convolution_param, checked; its defaults are Caffe's.
struct ConvolutionWindow {
  HeightWidth kernel, stride, pad, dilation;
};
/// A convolution_param without its fillers, checked; its defaults are Caffe's.
struct ConvolutionFields {
  ConvolutionWindow window;
  int64_t num_output = 0, group = 1;
  bool bias = true;  ///< bias_term
};
/// @return kInvalidArgument: a value is missing or out of range; names the layer and the field.
StatusOr<ConvolutionFields> ReadConvolution(const caffe::LayerParameter& param);
/// Of an Im2col, which has only a window. @return kInvalidArgument as well where another field is set.
StatusOr<ConvolutionWindow> ReadIm2col(const caffe::LayerParameter& param);

/// A pooling_param, checked; its defaults are Caffe's.
struct PoolingFields {
  enum Method { kMax, kAve, kStochastic } method = kMax;
  bool global = false;  ///< kernel = the input's size; ignore `kernel`
  bool ceil = true;     ///< round the output size up, as Caffe does unless round_mode says FLOOR
  HeightWidth kernel, stride, pad;
};
/// @return kInvalidArgument: a value is missing, out of range or not supported; names the layer and the field.
StatusOr<PoolingFields> ReadPooling(const caffe::LayerParameter& param);

/// Whether a BatchNorm takes the averages in training, too: `use_global_stats`, else its own phase.
bool UsesGlobalStats(const caffe::LayerParameter& param);

/// The axis of concatenation as written, by `axis` or the older `concat_dim`: negative ones count from the end.
int ConcatAxis(const caffe::ConcatParameter& param);

/// The whole shape of a top of a DummyData layer, by `shape` or by the older num, channels, height and width.
/// @return kInvalidArgument: it is missing, has no element or more than 4 dims, or is no label for each row of top 0.
StatusOr<Shape> DummyShape(const caffe::LayerParameter& param, int top);
/// Its filler, which lives as long as `param`; null: zeros. @param param as DummyShape accepts.
const caffe::FillerParameter* DummyFiller(const caffe::LayerParameter& param, int top);

/// The matrix of an InfogainLoss, [classes, classes], a row for each label, put into its infogain_loss_param where the
/// net was read (ReadInfogainMatrices).
std::span<const float> InfogainMatrix(const caffe::LayerParameter& param);

/// What a loss is divided by; Caffe's LossParameter.NormalizationMode. All counts are of the global batch.
enum class LossNormalization {
  kFull,       ///< rows
  kValid,      ///< rows whose label is not ignored
  kBatchSize,  ///< samples of the batch, times the elements in front of the classes in a sample
  kNone,       ///< 1
};
/// The same of a SigmoidCrossEntropyLoss, where BATCH_SIZE stands for neither of them.
LossNormalization SigmoidLossNormalization(const caffe::LossParameter& param);
/// Caffe's rule: `normalization` where it is set, else the older `normalize` (true: VALID, false: BATCH_SIZE).
LossNormalization NormalizationOf(const caffe::LossParameter& param);

}  // namespace hp

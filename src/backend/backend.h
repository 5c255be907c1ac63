#pragma once

#include "backend/op.h"
#include "backend/update.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

struct ConvolutionDesc {
  int64_t num_output = 0, group = 1;
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;  ///< 1: dense, as in Caffe
  bool bias = true;
  bool input_gradient = true;  ///< false for the first convolution: BackwardInput is never called
};

struct PoolingDesc {
  enum Method { kMax, kAve } method = kMax;
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool global = false;  ///< kernel = the input's size, whatever kernel_h and kernel_w say
  bool ceil = true;     ///< round the output size up, as Caffe does unless round_mode says FLOOR
};

struct LrnDesc {
  enum Region { kAcrossChannels, kWithinChannel } region = kAcrossChannels;
  int64_t local_size = 5;
  float alpha = 1, beta = 0.75f, k = 1;
};

struct ActivationDesc {
  enum Kind { kRelu, kSigmoid, kTanh } kind = kRelu;
  float negative_slope = 0;
};

/// y = x W^T + b over inputs x_i [rows, ...] that stand side by side in their columns (the k blocks of a gathered
/// tensor; one block for a plain layer). The parameter is [num_output, sum of K_i]; each x_i is read dense, flattened
/// from axis 1 in NCHW order whatever its layout is.
struct InnerProductDesc {
  int64_t num_output = 0;  ///< of this shard
  bool bias = true;
  bool input_gradient = true;
};

struct DropoutDesc {
  float ratio = 0.5f;
  uint64_t stream_key = 0;  ///< StreamKey(seed, layer, "dropout")
  int64_t first_unit = 0;   ///< index of this shard's first unit in the whole layer
  int64_t total_units = 0;  ///< units of the whole layer per sample
};

struct SoftmaxLossDesc {
  enum Normalization { kFull, kValid, kBatchSize, kNone } normalization = kValid;
  bool has_ignore_label = false;
  int ignore_label = 0;
  float loss_weight = 1;
  bool probabilities = false;  ///< a second output: the softmax, in the input's shape (no gradient comes back by it)
  int axis = 1;
};

struct AccuracyDesc {
  int top_k = 1;
  int axis = 1;
  bool has_ignore_label = false;
  int ignore_label = 0;
};

struct EltwiseDesc {
  enum Operation { kProd, kSum, kMax } operation = kSum;
  std::vector<float> coeff;  ///< kSum only; empty: all 1
};

/// The device seam: makes the ops of one device. CPU: oneDNN and own loops. `in` holds shapes and layouts of the
/// bottoms. Descs are already validated by the layers, and so are shapes.
class Backend {
 public:
  virtual ~Backend() = default;
  using OpPtr = std::unique_ptr<Op>;
  using Descs = std::vector<TensorDesc>;

  virtual StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Dropout(const DropoutDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Softmax(int axis, const Descs& in) = 0;
  virtual StatusOr<OpPtr> SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Accuracy(const AccuracyDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Flatten(const Shape& out, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Concat(int axis, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Eltwise(const EltwiseDesc& desc, const Descs& in) = 0;
  /// One input, `ways` outputs that share its memory in Forward; BackwardInput adds the `ways` gradients in order.
  virtual StatusOr<OpPtr> Split(int ways, const Descs& in) = 0;
  /// Forward: the input in dense NCHW and float32. BackwardInput: the sum of d_out[0..parts) (dense float32 too), in
  /// order, as the input is. Stands where a tensor leaves the node: `parts` readers send a gradient back.
  virtual StatusOr<OpPtr> Export(int parts, const Descs& in) = 0;

  /// The update in one pass over memory.
  virtual void SgdUpdate(std::span<const SgdPart> parts) = 0;
  /// Each part's sum of squares, added in double in an order that n alone fixes. Not finite exactly when a value is NaN
  /// or infinite: squares of float32 do not overflow a double.
  virtual void SumsOfSquares(std::span<const SquaresPart> parts) = 0;
};

/// Ops on this host's cores.
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace hp

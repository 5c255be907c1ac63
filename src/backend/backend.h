#pragma once

#include "backend/activation_rules.h"
#include "backend/broadcast_rules.h"
#include "backend/contrastive_rule.h"
#include "backend/element_loss_rules.h"
#include "backend/op.h"
#include "backend/raw_image_decoder.h"
#include "backend/reduction_rules.h"
#include "backend/update.h"
#include "base/range.h"
#include "hp/status.h"
#include "tensor/raw_images.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hp {

// Each desc describes one op; all fields come from the layer's Caffe parameter and are validated by layers/traits, so
// backends do not check them again. Sizes are in pixels, [N, C, H, W] are the input's.

/// y [N, num_output, H', W'] = x * W + b (a cross-correlation, as in Caffe), H' and W' by ConvolvedSize. Parameters: W
/// [num_output, C / group, kernel_h, kernel_w], then b [num_output]. Caffe: ConvolutionParameter.
struct ConvolutionDesc {
  int64_t num_output = 0, group = 1;  ///< `group` divides C and num_output
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;  ///< 1: dense, as in Caffe
  bool bias = true;                        ///< false: there is no parameter b
  bool input_gradient = true;              ///< false for the first convolution: BackwardInput is never called
};

/// y [N, C, H', W'], the largest or the mean value of each window, H' and W' by PooledShape (backend/window.h). A mean
/// divides by the window's part of image and padding, as Caffe does. Of equal maxima the first gets the gradient.
/// kStochastic: in training one of the window's values, which gets the gradient, drawn by StochasticPoolingRule with
/// probabilities that the values themselves are; in a test the mean of the values with these probabilities. No padding.
/// Caffe: PoolingParameter.
struct PoolingDesc {
  enum Method { kMax, kAve, kStochastic } method = kMax;
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool global = false;      ///< kernel = the input's size, whatever kernel_h and kernel_w say
  bool ceil = true;         ///< round the output size up, as Caffe does unless round_mode says FLOOR
  uint64_t stream_key = 0;  ///< kStochastic: StreamKey(seed, layer, "pooling")
  /// kStochastic: what it computes, whatever its batches are for (BatchContext::train, where it is not set). With false
  /// there is no backward pass.
  std::optional<bool> train = {};
};

/// Local response normalization, y = x s^-beta in the input's shape, over a window of local_size places around each
/// element: across channels s = k + alpha / local_size * (sum of x^2); within a channel the window is local_size x
/// local_size pixels and s = 1 + alpha / local_size^2 * (sum of x^2), whatever k is. Caffe: LRNParameter.
/// Source: Krizhevsky, Sutskever, Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012,
/// section 3.3.
struct LrnDesc {
  enum Region { kAcrossChannels, kWithinChannel } region = kAcrossChannels;
  int64_t local_size = 5;  ///< odd
  float alpha = 1, beta = 0.75f, k = 1;
};

/// y = (x - mean) / sqrt(variance + eps) for each channel (axis 1), in the input's layout; may work in place.
/// Parameters: a mean and a variance, [channels] each, both multiplied by the third, [1]. In a test, and in training
/// with `global`, these are taken; else the mean and the variance of the call's own rows, through which the gradient
/// goes. What BackwardParams computes then is their share in the update
///   parameter = keep^S * parameter + gradient,  S = BatchContext::sub_batches:
/// the gradients of sub-batch s are share * rows / global_rows * keep^(S - 1 - s) times the mean, the unbiased
/// variance, and 1; no loss scale. Caffe: BatchNormLayer. Source: Ioffe, Szegedy, "Batch Normalization", 2015,
/// arXiv:1502.03167.
struct BatchNormDesc {
  float eps = 1e-5f;    ///< at least 0
  float keep = 0.999f;  ///< from 0 to 1
  bool global = false;
  float share = 1;  ///< below 1 where other layers add to the averages behind this one
};

/// The outputs of Moments behind x: the rows of [kMomentRows, channels], dense float32.
enum MomentRow {
  kMean,
  kVariance,
  kFactor,   ///< 1 / sqrt(variance + eps)
  kOwnRows,  ///< 1 where mean and variance are those of the call's own rows, through which the gradient goes; else 0
  kMomentRows
};

/// y = f(x, p), and + b with `bias`: p is constant over axes [0, axis_begin) and [axis_end, rank) of x. With one input
/// p is parameter 0, b parameter 1, both of the shape of x's axes in between ([1] if there are none); with two p is
/// input 1, axis_begin is 0, and there is no bias. In x's layout where the axes are those of the channels or none, else
/// dense. May work in place where f does not bend. Caffe: ScaleLayer, BiasLayer, PReLULayer.
struct BroadcastDesc {
  std::variant<broadcast::Product, broadcast::Sum, broadcast::Prelu> function;
  int axis_begin = 1, axis_end = 2;
  bool bias = false;
};

/// y [rows, num_output] = x W^T + b, dense float32. x is the inputs x_i [rows, ...] side by side: one for a plain
/// layer, k for a tensor that is gathered from k nodes. Each x_i counts as [rows, K_i], flattened from `axis` in NCHW
/// order whatever its layout is; the axes before it, the same of all inputs, are the rows, and those of y. Parameters:
/// W [num_output, sum of K_i], or with `transposed` [sum of K_i, num_output], then b [num_output].
struct InnerProductDesc {
  int64_t num_output = 0;      ///< of this shard
  int axis = 1;                ///< not negative
  bool transposed = false;     ///< how W is stored
  bool bias = true;            ///< false: there is no parameter b
  bool input_gradient = true;  ///< false: BackwardInput is never called
};

/// y, of x's shape and one more axis of num_output, dense float32: the row of W that each element of x names
/// (EmbedRow), plus b. Parameters: W [rows, num_output], then b [num_output]. The gradients of W's rows are added in
/// the order of x's elements. An element that names no row makes its row of y NaN, and so the gradient of row 0. x has
/// no gradient. Caffe: EmbedLayer.
struct EmbedDesc {
  int64_t rows = 0;  ///< at most 2^24, the whole numbers that a float32 tells apart
  int64_t num_output = 0;
  bool bias = true;  ///< false: there is no parameter b
};

/// y [rows, num_output] = the cosine between x, put together as InnerProductDesc says, and each row of W [num_output,
/// sum of K_i]: dot(x / |x|, w / |w|), dense float32. Its gradients go through both normalisations.
struct CosineProductDesc {
  int64_t num_output = 0;                      ///< of this shard
  bool input_gradient = true;                  ///< false: BackwardInput is never called
  static constexpr double kLeastNorm = 1e-12;  ///< |x| and |w| count as no less
};

/// What InnerProductDesc without a bias says, or with `normalize` CosineProductDesc, for a sample of the classes alone:
/// y [rows, room], of which column c < OpArgs::sample->columns() is class sample->classes[c]; what stands behind is not
/// defined. Parameter 0 is W [num_output, sum of K_i]; its gradient is [room, sum of K_i], of which row r is class
/// OpArgs::update_sample->classes[r], and rows behind these are zero. An op for the rows of a whole update finds those
/// of batch b at [b, b + 1) * rows / update_sample->count.
struct SampledProductDesc {
  int64_t num_output = 0;      ///< of this shard
  int64_t room = 0;            ///< at least OpArgs::update_sample->rows()
  bool normalize = false;      ///< y is cosines
  bool input_gradient = true;  ///< false: BackwardInput is never called
};

/// y = x * m in training, m being 0 with probability `ratio` and 1 / (1 - ratio) else; y = x in a test. m depends on
/// the stream key, the sample and the unit only (DropoutRule), so it is the same however rows and units are divided
/// over nodes, and the backward pass computes it again. May work in place.
struct DropoutDesc {
  float ratio = 0.5f;       ///< in [0, 1)
  uint64_t stream_key = 0;  ///< StreamKey(seed, layer, "dropout")
  int64_t first_unit = 0;   ///< index of this shard's first unit in the whole layer
  int64_t total_units = 0;  ///< units of the whole layer per sample
  /// What it computes, whatever its batches are for (BatchContext::train, where it is not set).
  std::optional<bool> train = {};
};

/// The logits made of the cosines x of a row's classes, clamped to [-1, 1]: scale * x, but for the label, whose angle
/// is theta = acos(x), scale * (cos(theta + angle) - cosine). Where theta + angle is above pi, this formula still
/// holds. Backward, d logit / dx is taken as `scale` everywhere: at the label, and outside [-1, 1].
struct MarginDesc {
  float scale = 64;  ///< above 0
  float angle = 0;   ///< m2 of ArcFace, in [0, pi]
  float cosine = 0;  ///< m3 of CosFace
};

/// Softmax over `classes` and the multinomial logistic loss of logits [rows, classes], or [rows, ..., classes, ...]
/// with a label for each of the other elements (ClassAxis), such as [rows, classes, H, W] for each pixel: output 0 is
/// [1], these rows' part of the loss of the global batch, not multiplied by loss_weight: sum over labels of
/// -log(p[label]) / normalizer. Parts of all micro-batches add up to the loss. The gradient is multiplied by
/// loss_weight and BatchContext::loss_scale. Labels: BatchContext::labels. Caffe: SoftmaxWithLossLayer, LossParameter.
struct SoftmaxLossDesc {
  /// The normalizer: kValid counts the global batch's labels that are not ignored, kFull all of them, kBatchSize its
  /// samples, times the elements in front of the class axis in each, kNone is 1. At least 1 in any case.
  enum Normalization { kFull, kValid, kBatchSize, kNone } normalization = kValid;
  bool has_ignore_label = false;  ///< labels that are `ignore_label` add no loss and get a zero gradient
  int ignore_label = 0;
  float loss_weight = 1;
  bool probabilities = false;  ///< a second output: the softmax, in the input's shape (no gradient comes back by it)
  int axis = 1;                ///< of the classes, at least 1; with a sample, a margin or sliced classes 1 (CHECK)
  /// Above 0: how many classes there are of which the logits are a sample (SampledProductDesc): [rows, room], with the
  /// columns of OpArgs::sample. The softmax is over these alone. Not with `probabilities`.
  int64_t sample_of = 0;
  std::optional<MarginDesc> margin = {};  ///< given are cosines [rows, classes]; logits are what it makes of them

  /// What gradients are multiplied by, besides 1 / normalizer and BatchContext::loss_scale.
  float gradient_weight() const { return margin ? loss_weight * margin->scale : loss_weight; }
};

/// The loss of SoftmaxLossDesc with a weight for each pair of label and class: output 0 is [1], the sum over labels and
/// classes c of -matrix[label][c] * log(p[c]) / normalizer, p the softmax (InfogainRule). With the identity matrix it
/// is the loss of SoftmaxLossDesc. Caffe: InfogainLossLayer.
struct InfogainLossDesc {
  SoftmaxLossDesc loss;       ///< without a margin and a sample
  std::vector<float> matrix;  ///< [classes, classes], a row for each label
};

/// Output 0 is [1]: the rows of scores [rows, classes], or what else has a label (ClassAxis), whose label is among the
/// top_k, as a share of the global batch's labels that are not ignored: the parts of all micro-batches add up. A score
/// equal to the label's counts as better, a NaN score of it as wrong. Its gradient is zero. Caffe: AccuracyLayer.
struct AccuracyDesc {
  int top_k = 1;
  int axis = 1;  ///< of the classes, at least 1; of sliced classes 1 (CHECK)
  bool has_ignore_label = false;
  int ignore_label = 0;
};

/// The classes of one shard, where shard j of k has PartOf(count, j, k) of them, and none has nothing.
struct ClassSlice {
  Range here;         ///< of this shard
  int64_t count = 0;  ///< of all shards
  int64_t room = 0;   ///< above 0: the logits are [rows, room], a sample of `here`, as SampledProductDesc has it

  int64_t columns() const { return room > 0 ? room : here.size(); }
};

/// One output from inputs of one shape, elementwise, in the first input's layout. kMax: of two equal inputs the second
/// gets the gradient, later ones only if they are larger, as in Caffe; a NaN wins. Caffe: EltwiseLayer.
struct EltwiseDesc {
  enum Operation { kProd, kSum, kMax } operation = kSum;
  std::vector<float> coeff;  ///< kSum only; empty: all 1
};

/// y = coeff * the sum over axes [axis, rank) of x, |x| or x^2; y has the other axes, dense, float32. Caffe:
/// ReductionLayer.
struct ReductionDesc {
  ReductionRule::Operation operation = ReductionRule::kSum;
  int axis = 1;  ///< at least 1
  float coeff = 1;
};

/// Of x as [outer][width][inner], dense: for each outer and inner the top_k largest elements of the width, the largest
/// first (RankedElement): `indices`, their places as floats, and behind these, along the same axis, `values`, or one of
/// both. Float32; it has no gradient. Caffe: ArgMaxLayer.
struct ArgMaxDesc {
  int64_t width = 1, inner = 1, top_k = 1;
  bool indices = true, values = false;
};

/// y = (x - mean) / (deviation + eps), both over the pixels of each row's channel, or with across_channels over all
/// elements of each row; without normalize_variance y = x - mean. In the input's layout; may work in place. The
/// gradient is that of the function. Caffe: MVNLayer.
struct MvnDesc {
  bool normalize_variance = true, across_channels = false;
  float eps = 1e-9f;
};

/// Output [1]: these rows' part of a loss that is a sum of f(x, t) over elements, divided by `per_sample` times the
/// samples of the global batch (by 1 where that is 0). x [rows, ...] is input 0. Not multiplied by loss_weight;
/// gradients are, and by BatchContext::loss_scale. Targets that are an input have a gradient where f is symmetric, else
/// zero.
struct ElementLossDesc {
  std::variant<loss::SquaredError, loss::SigmoidCrossEntropy, loss::Hinge<false>, loss::Hinge<true>, loss::Logistic,
               loss::Term>
      function;
  /// Where t comes from: input 1, of x's shape; BatchContext::labels, one for each element of x; 1 for the element of
  /// a row that its label says, else 0; or nowhere, and it is 0.
  enum Targets { kInput, kLabels, kClasses, kNone } targets = kInput;
  int64_t per_sample = 1;
  bool counted = false;  ///< divided by the sum of BatchContext::batch_labels instead, how many elements of a row count
  float loss_weight = 1;
};

/// Output [1]: the sum over the rows of a batch of rule.Value(squared distance of a and b, similar), divided by
/// the samples of the global batch. a and b are inputs 0 and 1, of one shape [rows, ...]; whether they are similar say
/// input 2, [rows] or the like, dense, or where there is none BatchContext::labels (SaysSimilar). Not multiplied by
/// loss_weight; gradients are, and by BatchContext::loss_scale. Input 2 has none.
struct ContrastiveLossDesc {
  ContrastiveRule rule;
  float loss_weight = 1;
};

/// The arithmetic of one device: a factory of ops, and the update. CPU: oneDNN and own loops (backend/cpu); NVIDIA
/// GPUs: cuDNN, cuBLASLt and own kernels (backend/cuda). The two give the same results up to rounding and agree in all
/// corner cases.
///
/// Each factory method makes one op for fixed shapes. `in` holds shape, layout and element type of each bottom; any
/// layout is accepted, and Op::outputs() says which layouts the op chose for the tops. Shapes and descs are validated
/// by the layers before. An op may outlive neither the backend nor its device. Factory methods: one thread at a
/// time. The update
/// and the ops: executor thread; on a GPU they only put work into Device::kCompute.
/// @return kInternal: oneDNN cannot compute it; kFailedPrecondition: cuDNN or cuBLASLt cannot.
class Backend {
 public:
  virtual ~Backend() = default;
  using OpPtr = std::unique_ptr<Op>;
  using Descs = std::vector<TensorDesc>;

  virtual StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) = 0;
  /// With the fields of ConvolutionDesc: y [N, num_output, H', W'], H' and W' by DeconvolvedSize, is the gradient that
  /// a convolution from y's shape to x's has for its input where that of its output is x, plus b. Parameters: W [C,
  /// num_output / group, kernel_h, kernel_w], as of that convolution, then b [num_output]. Caffe: DeconvolutionLayer.
  virtual StatusOr<OpPtr> Deconvolution(const ConvolutionDesc& desc, const Descs& in) = 0;
  /// What a convolution of this window multiplies: y [N, C * kernel_h * kernel_w, H', W'], dense, H' and W' by
  /// ConvolvedSize, of which channel (c * kernel_h + i) * kernel_w + j is what tap (i, j) of each window sees of
  /// channel c, 0 in the padding. Only the window of the desc is read. Caffe: Im2colLayer.
  virtual StatusOr<OpPtr> Im2col(const ConvolutionDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) = 0;
  /// Elementwise y = f(x), in the input's layout (activation_rules.h).
  virtual StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> BatchNorm(const BatchNormDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Broadcast(const BroadcastDesc& desc, const Descs& in) = 0;
  // A BatchNorm whose only reader is a Scale of its channels, in two other ops: fewer passes over memory, and nothing
  // is rounded between the two. The caller has output 0 of the first be the memory of its input, and gradients
  // likewise.

  /// Whether it can compute them.
  virtual bool has_moments() const = 0;
  /// Outputs: x, untouched, and what BatchNorm takes of it (MomentRow). Parameters and their gradients as BatchNorm's.
  /// The gradient of output 0 is x's.
  virtual StatusOr<OpPtr> Moments(const BatchNormDesc& desc, const Descs& in) = 0;
  /// Inputs x and its moments: y = (x - mean) factor p, and + b with `bias`, in x's layout. Parameters: p and b,
  /// [channels] each. The gradient of x is BatchNorm's, which goes through the moments; these have none of their own.
  /// May work in place where there is no backward pass.
  virtual StatusOr<OpPtr> ScaledNorm(bool bias, const Descs& in) = 0;
  virtual StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Embed(const EmbedDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> CosineProduct(const CosineProductDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> SampledProduct(const SampledProductDesc& desc, const Descs& in) = 0;
  /// Whether it can compute them, and JoinedStatistics and JoinedTopScores.
  virtual bool has_sampled_products() const = 0;
  virtual StatusOr<OpPtr> Dropout(const DropoutDesc& desc, const Descs& in) = 0;
  /// Softmax along `axis`, in the input's shape and layout; not a loss.
  virtual StatusOr<OpPtr> Softmax(int axis, const Descs& in) = 0;
  virtual StatusOr<OpPtr> SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> InfogainLoss(const InfogainLossDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Accuracy(const AccuracyDesc& desc, const Descs& in) = 0;
  // Softmax, loss and accuracy over classes that are spread over k shards (ClassSlice), in two ops: what a shard says
  // of its classes, a few numbers for each row, and what follows from the numbers of all shards, taken in the order of
  // shards. x [rows, n] are this shard's logits, or as many elements ([rows, n, 1, 1]); `said` are k outputs of the
  // first op, each dense float32. Rows and labels as for the whole ops. Only x of a loss has a gradient.

  /// Output [rows, 2]: the largest x, and the sum of exp(x - largest), to which x at minus infinity add nothing. Where
  /// some x is NaN or plus infinity the sum is NaN, and the largest means nothing. With `labels` [rows, 3]: then the
  /// label's x; anything, NaN too, if it is not of this shard. With `margin`, which needs labels, all this is said of
  /// the logits that it makes of x.
  virtual StatusOr<OpPtr> ClassStatistics(const ClassSlice& classes, bool labels,
                                          const std::optional<MarginDesc>& margin, const Descs& in) = 0;
  /// Inputs x, then said[0..k) of ClassStatistics without labels: this shard's slice of the softmax along axis 1, in
  /// x's shape and layout.
  virtual StatusOr<OpPtr> SlicedSoftmax(const Descs& in) = 0;
  /// Inputs x, then said[0..k) of ClassStatistics with labels: output [1] and the gradient of x as SoftmaxLoss has
  /// them; `probabilities` is false. Nothing of x's size is saved: the gradient is computed from x.
  virtual StatusOr<OpPtr> SlicedSoftmaxLoss(const SoftmaxLossDesc& desc, const ClassSlice& classes,
                                            const Descs& in) = 0;
  /// Output [rows, 1 + top_k]: the label's score, anything if it is not of this shard, and, in any order, the top_k
  /// largest scores of the other classes of this shard, NaN where there are fewer; scores that are NaN are left out.
  virtual StatusOr<OpPtr> TopScores(const AccuracyDesc& desc, const ClassSlice& classes, const Descs& in) = 0;
  // A shard may go over its classes in blocks of ClassSlice::room, each a sample of neighbours (the last one may be
  // smaller): what it says of all of them, from what the two ops above said of each block, in order.

  /// Inputs of ClassStatistics, with labels if they have three numbers; output likewise.
  virtual StatusOr<OpPtr> JoinedStatistics(const ClassSlice& classes, const Descs& in) = 0;
  /// Inputs of TopScores; output likewise.
  virtual StatusOr<OpPtr> JoinedTopScores(const AccuracyDesc& desc, const ClassSlice& classes, const Descs& in) = 0;
  /// Inputs said[0..k) of TopScores: output [1] as Accuracy has it. @param classes of all shards.
  virtual StatusOr<OpPtr> SlicedAccuracy(const AccuracyDesc& desc, int64_t classes, const Descs& in) = 0;

  /// The input's elements in dense NCHW order under the shape `out`, which has equally many.
  virtual StatusOr<OpPtr> Flatten(const Shape& out, const Descs& in) = 0;
  /// The inputs side by side along `axis` (not negative); all other axes are equal.
  virtual StatusOr<OpPtr> Concat(int axis, const Descs& in) = 0;
  /// What Concat undoes: outputs of the given sizes along `axis`, which add up to the input's, in the input's layout
  /// where each output can have it, else dense. A null gradient of an output counts as zero.
  virtual StatusOr<OpPtr> Slice(int axis, const std::vector<int64_t>& sizes, const Descs& in) = 0;
  /// The part of input 0 that has the shape `out`, from `offsets` on, dense. All of axis 0; at most
  /// StridedCopy::kMostAxes axes. Other inputs are not read, and their gradients are zero.
  virtual StatusOr<OpPtr> Crop(const std::vector<int64_t>& offsets, const Shape& out, const Descs& in) = 0;
  /// The input `tiles` times side by side along `axis`, dense.
  virtual StatusOr<OpPtr> Tile(int axis, int64_t tiles, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Eltwise(const EltwiseDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Reduction(const ReductionDesc& desc, const Descs& in) = 0;
  /// @param out the output's shape, as many elements as ArgMaxDesc says.
  virtual StatusOr<OpPtr> ArgMax(const ArgMaxDesc& desc, const Shape& out, const Descs& in) = 0;
  virtual StatusOr<OpPtr> Mvn(const MvnDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> ElementLoss(const ElementLossDesc& desc, const Descs& in) = 0;
  virtual StatusOr<OpPtr> ContrastiveLoss(const ContrastiveLossDesc& desc, const Descs& in) = 0;
  /// One input, `ways` outputs equal to it, for which the memory plan uses the input's memory where it can (Forward
  /// then does nothing). BackwardInput adds the gradients of the outputs in order; a null one counts as zero.
  virtual StatusOr<OpPtr> Split(int ways, const Descs& in) = 0;
  /// Stands where a tensor leaves the node. Forward: the input in dense NCHW, its elements rounded to `element`:
  /// float32, or bfloat16. BackwardInput: the sum, in float32, of d_out[0..parts), of the form of the output, one from
  /// each reader (null counts as zero), added in order, in the input's layout and element type.
  virtual StatusOr<OpPtr> Export(int parts, ElementType element, const Descs& in) = 0;
  /// Stands where a bfloat16 tensor lands. Forward: the input, dense, in float32. BackwardInput: the output's gradient
  /// rounded.
  virtual StatusOr<OpPtr> Import(const Descs& in) = 0;
  /// Rounds each element to `element`, bfloat16, and keeps layout and type. The gradient passes unchanged, and may lie
  /// in the memory of the output's.
  virtual StatusOr<OpPtr> Round(ElementType element, const Descs& in) = 0;
  /// Output i is channels (axis 1) `channels[i]` of the input, a dense float32 tensor, dense. BackwardInput puts the
  /// outputs' gradients in their places; channels of no output, and those whose gradient is null, get zero.
  /// @param channels ranges that do not overlap.
  virtual StatusOr<OpPtr> Scatter(const std::vector<Range>& channels, const Descs& in) = 0;
  /// y [rows, n] = the sum of all inputs, added in order, then of parameter 0, a bias [n]; all dense float32. The
  /// gradient of every input is y's, in whose memory it lies: there is no BackwardInput.
  virtual StatusOr<OpPtr> Sum(bool bias, const Descs& in) = 0;

  /// Makes the gradients of parameters complete that BackwardParams of this backend's ops has kept back so far, in
  /// another layout: all in few launches. Before d_params is read, and before captured work ends.
  virtual void FinishGradients() {}
  /// Updates histories and weights of each part, in one pass over memory (see UpdateCoefficients). All parts in one
  /// call cost least on a GPU. `parts` may be freed after the call, what it points to only when the work is done.
  virtual void UpdateParams(std::span<const UpdatePart> parts) = 0;
  /// Writes each part's sum of squares, added in double in an order that n alone fixes, so equal values give equal
  /// bits. Not finite exactly when a value is NaN or infinite: squares of float32 do not overflow a double.
  virtual void SumsOfSquares(std::span<const SquaresPart> parts) = 0;
  /// Makes floats of raw images (tensor/raw_images.h), in the device's memory with what the rule points to.
  /// @param raw RawImagesBytes(rows, rule.values()), aligned to 4 bytes. @param out dense [rows, C, H, W].
  virtual void FloatImages(const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out) = 0;
  /// What decodes JPEGs among up to `rows` raw images, each of at most `whole_bytes` bytes when it is decoded and
  /// whole. It has memory for all of them, rows * WholeImageStride(whole_bytes), and what its library takes.
  /// @return kFailedPrecondition: the device has no such library, or this host lacks it; the message says what to do.
  /// kResourceExhausted: out of memory.
  virtual StatusOr<std::unique_ptr<RawImageDecoder>> ImageDecoder(int64_t /*rows*/, int64_t /*whole_bytes*/) {
    return FailedPrecondition("processors decode images as they read them");
  }
  /// Sets all `values`, in the device's memory, to zero.
  virtual void Clear(std::span<float> values) = 0;
};

/// A backend for this host's cores, for tensors in host memory. Stateless.
/// @param factors of convolutions: bfloat16 rounds inputs, weights and what is written (of a deconvolution first the
/// product, then its sum with the bias), and adds in float32; what follows a convolution has its element type. On
/// processors with AMX also factors of inner products are rounded, whose sums and outputs are float32. All other ops
/// compute in float32. Without CpuMultipliesBFloat16 convolutions are float32, as if it said so.
std::unique_ptr<Backend> MakeCpuBackend(ElementType factors = ElementType::kFloat32);
/// Whether this host's processors have instructions for products of bfloat16 (AVX512_BF16, AMX) and oneDNN uses them.
bool CpuMultipliesBFloat16();
/// Why not: "the processors have neither AVX512_BF16 nor AMX (oneDNN 2.6.3 avx2)"; empty: they have.
std::string CpuLacksBFloat16();

}  // namespace hp

#include "base/philox.h"
#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_test_util.h"

#include <functional>
#include <ostream>

// Whole calls on memory that only queued work can touch, beside the same calls on the CPU: an op that reads the GPU's
// memory when it is called, or whose work can't be repeated with other numbers in the same memory, fails here.
namespace hp::test {
namespace {

struct Case {
  const char* name;
  std::function<StatusOr<Backend::OpPtr>(Backend&, const Backend::Descs&)> make;
  Backend::Descs in;
  float tolerance = 0;  ///< 0: the same bits
  std::vector<Shape> params = {};
  int roundings = 2;  ///< of what is written in 16 bits
  int64_t below = 0;  ///< above 0: inputs are whole numbers below it
};

/// A case with inputs of float32 or of the element type of the GPU's products.
struct TypedCase {
  Case c;
  ElementType element = ElementType::kFloat32;
  bool first_is_float32 = false;  ///< beside others of `element`: what comes from other nodes is float32

  Backend::Descs on_gpu() const {
    Backend::Descs descs = c.in;
    for (size_t i = first_is_float32 ? 1 : 0; i < descs.size(); ++i) descs[i].element = element;
    return descs;
  }
  std::string name() const {
    const char* const types[] = {"", "_bfloat16", "_float16"};
    return std::string(c.name) + types[static_cast<int>(element)] + (first_is_float32 ? "_behind_float32" : "");
  }
};

void PrintTo(const TypedCase& c, std::ostream* out) { *out << c.name(); }

auto Pool(PoolingDesc::Method method, int64_t kernel, int64_t stride, int64_t pad) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Pooling({method, kernel, kernel, stride, stride, pad, pad}, in);
  };
}
auto Lrn(LrnDesc::Region region, int64_t size, float beta) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Lrn({region, size, 2.0f, beta, 1.0f}, in); };
}
auto BatchNorm(bool global) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.BatchNorm({1e-3f, 0.9f, global}, in); };
}
auto Scale(int axis_begin, int axis_end, bool bias) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Broadcast({broadcast::Product{}, axis_begin, axis_end, bias}, in);
  };
}
auto Bias(int axis_begin, int axis_end) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Broadcast({broadcast::Sum{}, axis_begin, axis_end, false}, in);
  };
}
auto Prelu(int axis_end) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Broadcast({broadcast::Prelu{}, 1, axis_end, false}, in);
  };
}
auto Dropout(int64_t first_unit) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Dropout({0.4f, StreamKey(3, "drop", "dropout"), first_unit, 100'000}, in);
  };
}
auto Eltwise(EltwiseDesc::Operation operation) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Eltwise({operation, {}}, in); };
}
auto Convolution(int64_t kernel, int64_t group) {
  ConvolutionDesc desc;
  desc.num_output = 8, desc.group = group;
  desc.kernel_h = desc.kernel_w = kernel, desc.stride_w = 2, desc.pad_h = 1;
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Convolution(desc, in); };
}
auto Deconvolution(int64_t kernel, int64_t group) {
  ConvolutionDesc desc;
  desc.num_output = 8, desc.group = group;
  desc.kernel_h = desc.kernel_w = kernel, desc.stride_w = 2, desc.pad_h = 1;
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Deconvolution(desc, in); };
}
StatusOr<Backend::OpPtr> InnerProduct(Backend& backend, const Backend::Descs& in) {
  return backend.InnerProduct({.num_output = 11}, in);
}
auto ProductOf(int axis, bool transposed) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.InnerProduct({.num_output = 11, .axis = axis, .transposed = transposed}, in);
  };
}
StatusOr<Backend::OpPtr> CosineProduct(Backend& backend, const Backend::Descs& in) {
  return backend.CosineProduct({.num_output = 11}, in);
}
auto Loss(SoftmaxLossDesc::Normalization normalization, bool ignore) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.SoftmaxLoss({normalization, ignore, 2, 0.5f, true}, in);
  };
}
// Of a shard that has classes from 1 on.
StatusOr<Backend::OpPtr> ClassStatistics(Backend& backend, const Backend::Descs& in) {
  return backend.ClassStatistics({{1, 1 + in[0].shape[1]}, 200}, true, std::nullopt, in);
}
constexpr MarginDesc kMargin = {.scale = 8, .angle = 0.5f, .cosine = 0.1f};
StatusOr<Backend::OpPtr> MarginStatistics(Backend& backend, const Backend::Descs& in) {
  return backend.ClassStatistics({{1, 1 + in[0].shape[1]}, 200}, true, kMargin, in);
}
StatusOr<Backend::OpPtr> MarginLoss(Backend& backend, const Backend::Descs& in) {
  return backend.SoftmaxLoss({.has_ignore_label = true, .ignore_label = 2, .probabilities = true, .margin = kMargin},
                             in);
}
StatusOr<Backend::OpPtr> TopScores(Backend& backend, const Backend::Descs& in) {
  return backend.TopScores({.top_k = 3}, {{1, 1 + in[0].shape[1]}, 200}, in);
}
auto Accuracy(bool ignore) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Accuracy({2, 1, ignore, 2}, in); };
}
auto Softmax(int axis) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Softmax(axis, in); };
}
auto Concat(int axis) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Concat(axis, in); };
}
auto Slice(int axis, std::vector<int64_t> sizes) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Slice(axis, sizes, in); };
}
auto Crop(std::vector<int64_t> offsets, Shape out) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Crop(offsets, out, in); };
}
auto Tile(int axis, int64_t tiles) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Tile(axis, tiles, in); };
}
auto Im2col(int64_t kernel, int64_t dilation) {
  ConvolutionDesc desc;
  desc.kernel_h = desc.kernel_w = kernel, desc.stride_w = 2, desc.pad_h = 1, desc.dilation_h = dilation;
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Im2col(desc, in); };
}
auto Reduction(ReductionRule::Operation operation, int axis) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Reduction({.operation = operation, .axis = axis, .coeff = 0.5f}, in);
  };
}
auto ArgMax(const ArgMaxDesc& desc, Shape out) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.ArgMax(desc, out, in); };
}
auto Mvn(bool variance, bool across_channels) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Mvn({.normalize_variance = variance, .across_channels = across_channels, .eps = 0.1f}, in);
  };
}
auto Stochastic(int64_t kernel, int64_t stride) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.Pooling({.method = PoolingDesc::kStochastic,
                            .kernel_h = kernel,
                            .kernel_w = kernel,
                            .stride_h = stride,
                            .stride_w = stride,
                            .stream_key = StreamKey(3, "pool", "pooling")},
                           in);
  };
}
auto ContrastiveLoss(const ContrastiveLossDesc& desc) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.ContrastiveLoss(desc, in); };
}

auto ElementLoss(const ElementLossDesc& desc) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.ElementLoss(desc, in); };
}
auto InfogainLoss(bool ignore, bool probabilities) {
  return [=](Backend& backend, const Backend::Descs& in) {
    const int64_t classes = in[0].shape[1];
    InfogainLossDesc desc = {{.has_ignore_label = ignore, .ignore_label = 2, .loss_weight = 0.5f}, {}};
    desc.loss.probabilities = probabilities;
    desc.matrix.resize(classes * classes);
    for (int64_t i = 0; i < classes * classes; ++i) desc.matrix[i] = static_cast<float>(i % 7) / 4 - 0.5f;
    return backend.InfogainLoss(desc, in);
  };
}
StatusOr<Backend::OpPtr> Embed(Backend& backend, const Backend::Descs& in) {
  return backend.Embed({.rows = 11, .num_output = 9}, in);
}
StatusOr<Backend::OpPtr> Split(Backend& backend, const Backend::Descs& in) { return backend.Split(3, in); }
StatusOr<Backend::OpPtr> Export(Backend& backend, const Backend::Descs& in) {
  return backend.Export(1, ElementType::kFloat32, in);
}
StatusOr<Backend::OpPtr> Flatten(Backend& backend, const Backend::Descs& in) {
  return backend.Flatten(Shape{in[0].shape[0], in[0].shape.count(1)}, in);
}
auto Activation(const ActivationDesc& desc) {
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Activation(desc, in); };
}

const TensorDesc kDense = {{3, 12, 9, 7}, 1}, kNhwc = {{3, 12, 9, 7}, 12}, kOddNhwc = {{2, 13, 6, 5}, 13};
constexpr auto kMax = PoolingDesc::kMax, kAve = PoolingDesc::kAve;
constexpr auto kAcross = LrnDesc::kAcrossChannels, kWithin = LrnDesc::kWithinChannel;

/// The product, which can be twice as large as its sum with the bias, the bias, and the sum.
constexpr int kDeconvolved = 4;

const Case kCases[] = {
    {"max_dense", Pool(kMax, 3, 2, 0), {kDense}},
    {"max_nhwc", Pool(kMax, 3, 2, 1), {kNhwc}},
    {"max_nhwc_without_packs", Pool(kMax, 2, 2, 0), {kOddNhwc}},
    {"max_of_large_windows", Pool(kMax, 17, 1, 0), {{{2, 4, 19, 18}, 4}}},
    {"average_dense", Pool(kAve, 3, 2, 1), {kDense}, 1e-6f},
    {"average_nhwc", Pool(kAve, 3, 2, 1), {kNhwc}, 1e-6f},
    {"average_nhwc_without_packs", Pool(kAve, 3, 1, 1), {kOddNhwc}, 1e-6f},
    {"stochastic_dense", Stochastic(3, 2), {kDense}},
    {"stochastic_nhwc", Stochastic(2, 1), {kOddNhwc}},
    {"stochastic_of_large_windows", Stochastic(17, 1), {{{2, 4, 19, 18}, 4}}},
    {"lrn_across_dense", Lrn(kAcross, 5, 0.75f), {kDense}, 3e-6f},
    {"lrn_across_nhwc_5", Lrn(kAcross, 5, 0.75f), {kNhwc}, 3e-6f},
    {"lrn_across_nhwc_3", Lrn(kAcross, 3, 0.6f), {kNhwc}, 3e-6f},
    {"lrn_across_nhwc_7", Lrn(kAcross, 7, 0.75f), {kNhwc}, 3e-6f},
    {"lrn_across_nhwc_without_packs", Lrn(kAcross, 5, 0.5f), {kOddNhwc}, 3e-6f},
    {"lrn_across_4_channels", Lrn(kAcross, 5, 0.75f), {{{2, 4, 3, 3}, 4}}, 3e-6f},
    {"lrn_within_dense", Lrn(kWithin, 3, 0.75f), {kDense}, 3e-6f},
    {"lrn_within_nhwc", Lrn(kWithin, 5, 0.75f), {kNhwc}, 3e-6f},
    {"batch_norm_dense", BatchNorm(false), {kDense}, 2e-5f, {{12}, {12}, {1}}},
    {"batch_norm_nhwc", BatchNorm(false), {kOddNhwc}, 2e-5f, {{13}, {13}, {1}}},
    {"batch_norm_of_rows", BatchNorm(false), {{{40, 30}, 1}}, 2e-5f, {{30}, {30}, {1}}},
    {"scale_dense", Scale(1, 2, true), {kDense}, 2e-5f, {{12}, {12}}},
    {"scale_nhwc", Scale(1, 2, true), {kOddNhwc}, 2e-5f, {{13}, {13}}},
    {"scale_of_units", Scale(1, 4, false), {kNhwc}, 2e-5f, {{12, 9, 7}}},
    {"bias_dense", Bias(1, 2), {kDense}, 2e-5f, {{12}}},
    {"bias_of_units", Bias(1, 4), {kNhwc}, 2e-5f, {{12, 9, 7}}},
    {"bias_from_an_input", Bias(0, 2), {kNhwc, {{3, 12}, 1}}, 2e-5f},
    {"prelu_dense", Prelu(2), {kDense}, 2e-5f, {{12}}},
    {"prelu_nhwc", Prelu(2), {kOddNhwc}, 2e-5f, {{13}}},
    {"prelu_of_one_slope", Prelu(1), {kOddNhwc}, 1e-4f, {{1}}},
    {"scale_by_an_input", Scale(0, 2, false), {kNhwc, {{3, 12}, 1}}, 2e-5f},
    {"dropout_matrix", Dropout(0), {{{5, 1000}, 1}}},
    {"dropout_shard", Dropout(4098), {{{5, 1003}, 1}}},
    {"dropout_nhwc", Dropout(5), {kOddNhwc}},
    {"dropout_dense", Dropout(8), {kDense}},
    {"concat_nhwc", Concat(1), {kNhwc, {{3, 20, 9, 7}, 20}}},
    {"concat_mixed", Concat(1), {kNhwc, kDense, {{3, 5, 9, 7}, 5}}},
    {"slice_nhwc", Slice(1, {4, 8}), {kNhwc}},
    {"slice_odd_nhwc", Slice(1, {1, 7, 5}), {kOddNhwc}},
    {"slice_dense", Slice(2, {4, 5}), {kDense}},
    {"crop_nhwc", Crop({0, 2, 1, 3}, {3, 9, 5, 4}), {kNhwc, kDense}},
    {"crop_dense", Crop({0, 0, 2, 0}, {3, 12, 5, 7}), {kDense, kDense}},
    {"tile_dense", Tile(1, 3), {kDense}},
    {"tile_nhwc", Tile(3, 2), {kOddNhwc}},
    {"im2col_dense", Im2col(3, 2), {kDense}},
    {"im2col_nhwc", Im2col(2, 1), {kOddNhwc}},
    {"sum_of_axes", Reduction(ReductionRule::kSum, 2), {kNhwc}, 1e-5f},
    {"sum_of_squares", Reduction(ReductionRule::kSquareSum, 3), {kDense}, 1e-5f},
    {"sum_of_sizes", Reduction(ReductionRule::kAbsSum, 1), {kOddNhwc}, 1e-5f},
    {"arg_max", ArgMax({.width = 756, .top_k = 3, .values = true}, {3, 2, 3, 1}), {kDense}},
    {"arg_max_of_channels", ArgMax({.width = 13, .inner = 30, .top_k = 2}, {2, 2, 6, 5}), {kOddNhwc}},
    {"mvn_dense", Mvn(true, false), {kDense}, 2e-5f},
    {"mvn_nhwc", Mvn(true, false), {kOddNhwc}, 2e-5f},
    {"mvn_of_rows", Mvn(true, true), {kNhwc}, 2e-5f},
    {"mvn_of_means", Mvn(false, false), {kNhwc}, 2e-5f},
    {"euclidean_loss", ElementLoss({.function = loss::SquaredError{}, .loss_weight = 0.5f}), {kNhwc, kDense}, 1e-5f},
    {"sigmoid_loss",
     ElementLoss({.function = loss::SigmoidCrossEntropy{}, .per_sample = 756}),
     {kDense, kDense},
     1e-5f},
    {"loss_of_labels",
     ElementLoss({.function = loss::SquaredError{}, .targets = ElementLossDesc::kLabels}),
     {{{40, 1}, 1}},
     1e-5f},
    {"hinge_loss",
     ElementLoss({.function = loss::Hinge<false>{}, .targets = ElementLossDesc::kClasses}),
     {{{40, 5}, 1}},
     1e-5f},
    {"squared_hinge_loss",
     ElementLoss({.function = loss::Hinge<true>{}, .targets = ElementLossDesc::kClasses}),
     {{{40, 5}, 1}},
     1e-5f},
    {"contrastive_loss", ContrastiveLoss({{30, false}, 0.5f}), {kNhwc, kDense}, 2e-5f},
    {"contrastive_loss_of_small_rows", ContrastiveLoss({{2, false}, 1}), {{{40, 5}, 1}, {{40, 5}, 1}}, 2e-5f},
    {"legacy_contrastive_loss", ContrastiveLoss({{9, true}, 1}), {{{40, 5}, 1}, {{40, 5}, 1}}, 2e-5f},
    {"contrastive_loss_of_a_tensor",
     ContrastiveLoss({{2, false}, 1}),
     {{{40, 5}, 1}, {{40, 5}, 1}, {{40, 1}, 1}},
     2e-5f},
    {"eltwise_product", Eltwise(EltwiseDesc::kProd), {kNhwc, kNhwc, kDense}},
    {"eltwise_sum", Eltwise(EltwiseDesc::kSum), {kNhwc, kDense}},
    {"eltwise_maximum", Eltwise(EltwiseDesc::kMax), {kDense, kNhwc, kDense}},
    {"split", Split, {kNhwc}},
    {"export", Export, {kNhwc}},
    {"flatten", Flatten, {kNhwc}},
    {"relu", Activation(activation::Relu<activation::From::kOutput>{0.1f}), {kNhwc}},
    {"relu_of_a_negative_slope", Activation(activation::Relu<activation::From::kInput>{-0.5f}), {kNhwc}},
    {"sigmoid", Activation(activation::Sigmoid{}), {kNhwc}, 1e-6f},
    {"tanh", Activation(activation::Tanh{}), {kNhwc}, 1e-6f},
    {"elu", Activation(activation::Elu<activation::From::kOutput>{0.5f}), {kNhwc}, 1e-6f},
    {"elu_of_a_negative_alpha", Activation(activation::Elu<activation::From::kInput>{-0.5f}), {kDense}, 1e-6f},
    {"absolute_value", Activation(activation::Abs{}), {kOddNhwc}},
    {"linear", Activation(activation::Linear{0.5f, -1}), {kNhwc}, 1e-6f},
    {"constant", Activation(activation::Constant{3}), {kDense}},
    {"square", Activation(activation::Square{0.5f, 1}), {kNhwc}, 1e-6f},
    {"power", Activation(activation::Power{1.5f, 0.25f, 3}), {kDense}, 3e-6f},
    {"exponential", Activation(activation::Exp{0.5f, 2}), {kNhwc}, 3e-6f},
    {"logarithm", Activation(activation::Log{0.5f, 0.5f, 4}), {kDense}, 3e-6f},
    {"bnll", Activation(activation::Bnll{}), {kNhwc}, 1e-6f},
    {"threshold", Activation(activation::Threshold{0.5f}), {kOddNhwc}},
    {"swish", Activation(activation::Swish{1.5f}), {kNhwc}, 3e-6f},
    {"clip", Activation(activation::Clip{-1, 0.5f}), {kDense}},
    {"convolution_dense", Convolution(3, 1), {kDense}, 1e-4f, {{8, 12, 3, 3}, {8}}},
    {"convolution_nhwc", Convolution(3, 2), {kNhwc}, 1e-4f, {{8, 6, 3, 3}, {8}}},
    {"convolution_1x1", Convolution(1, 1), {kOddNhwc}, 1e-4f, {{8, 13, 1, 1}, {8}}},
    {"deconvolution_dense", Deconvolution(3, 1), {kDense}, 1e-4f, {{12, 8, 3, 3}, {8}}, kDeconvolved},
    {"deconvolution_nhwc", Deconvolution(3, 2), {kNhwc}, 1e-4f, {{12, 4, 3, 3}, {8}}, kDeconvolved},
    {"deconvolution_1x1", Deconvolution(1, 1), {kOddNhwc}, 1e-4f, {{13, 8, 1, 1}, {8}}, kDeconvolved},
    {"inner_product", InnerProduct, {{{40, 30}, 1}}, 1e-4f, {{11, 30}, {11}}},
    {"inner_product_of_blocks", InnerProduct, {kNhwc, {{3, 7}, 1}, kDense}, 1e-4f, {{11, 1519}, {11}}},
    {"inner_product_transposed", ProductOf(1, true), {kNhwc, {{3, 7}, 1}, kDense}, 1e-4f, {{1519, 11}, {11}}},
    {"inner_product_of_lines", ProductOf(3, false), {kNhwc}, 1e-4f, {{11, kNhwc.shape[3]}, {11}}},
    {"cosine_product", CosineProduct, {{{40, 30}, 1}}, 1e-4f, {{11, 30}}},
    {"cosine_product_of_blocks", CosineProduct, {kNhwc, {{3, 7}, 1}, kDense}, 1e-4f, {{11, 1519}}},
    {"softmax_nhwc", Softmax(1), {kNhwc}, 1e-6f},
    {"softmax_of_long_rows", Softmax(1), {{{3, 700}, 1}}, 1e-6f},
    {"softmax_of_pixels", Softmax(2), {kOddNhwc}, 1e-6f},
    {"loss", Loss(SoftmaxLossDesc::kFull, false), {{{40, 5}, 1}}, 1e-6f},
    {"loss_of_many_classes", Loss(SoftmaxLossDesc::kNone, true), {{{9, 100}, 1}}, 1e-5f},
    {"loss_of_valid_labels", Loss(SoftmaxLossDesc::kValid, true), {{{40, 5}, 1}}, 1e-6f},
    {"infogain_loss", InfogainLoss(false, true), {{{40, 5}, 1}}, 1e-5f},
    {"infogain_loss_of_many_classes", InfogainLoss(false, false), {{{9, 100}, 1}}, 1e-5f},
    {"infogain_loss_of_valid_labels", InfogainLoss(true, false), {{{40, 5}, 1}}, 1e-5f},
    {"embed", Embed, {{{40, 5}, 1}}, 1e-5f, {{11, 9}, {9}}, 2, 11},
    {"embed_nhwc", Embed, {kNhwc}, 2e-4f, {{11, 9}, {9}}, 2, 11},
    {"accuracy", Accuracy(false), {{{40, 5}, 1}}},
    {"class_statistics", ClassStatistics, {{{40, 5}, 1}}, 1e-6f},
    {"class_statistics_of_many_classes", ClassStatistics, {{{9, 100}, 1}}, 1e-6f},
    {"margin_statistics", MarginStatistics, {{{40, 5}, 1}}, 1e-5f},
    {"margin_statistics_of_many_classes", MarginStatistics, {{{9, 100}, 1}}, 1e-5f},
    {"margin_loss", MarginLoss, {{{40, 5}, 1}}, 1e-5f},
    {"margin_loss_of_many_classes", MarginLoss, {{{9, 100}, 1}}, 1e-5f},
    {"top_scores", TopScores, {{{40, 5}, 1}}},
    {"accuracy_of_valid_labels", Accuracy(true), {{{40, 5}, 1}}},
};

/// One op with memory of its device: calls that read back what they left in it.
class Bench {
 public:
  /// @param element that all values are rounded to.
  Bench(Device* device, Backend* backend, const Case& c, const Backend::Descs& in, ElementType element)
      : device_(device), element_(element), below_(c.below) {
    auto op = c.make(*backend, in);
    EXPECT_TRUE(op.ok()) << op.status();
    op_ = *std::move(op);
    for (const TensorDesc& desc : in) in_.push_back(Allocate(desc)), d_in_.push_back(Allocate(desc));
    for (const TensorDesc& desc : op_->outputs()) out_.push_back(Allocate(desc)), d_out_.push_back(Allocate(desc));
    for (const Shape& shape : c.params) {
      params_.push_back(Allocate({shape, 1})), d_params_.push_back(Allocate({shape, 1}));
      d_param_pointers_.push_back(d_params_.back().floats());
      packed_.emplace_back(device);
    }
    const int64_t rows = c.in[0].shape[0];
    labels_ = Allocate({Shape{kBatches * rows}, 1});
    batch_.global_rows = kBatches * rows;
    batch_.batch_labels = {labels_.floats(), static_cast<size_t>(kBatches * rows)};
    batch_.labels = batch_.batch_labels.subspan(rows, rows);
    args_.saved = Allocate(op_->saved_bytes());
    args_.scratch = Allocate(op_->scratch_bytes());
    batch_.first_sample_on_device = reinterpret_cast<const uint64_t*>(Allocate(sizeof(uint64_t)));
    batch_.loss_scale_on_device = reinterpret_cast<const float*>(Allocate(sizeof(float)));
    args_.in = in_, args_.out = out_, args_.d_in = d_in_, args_.d_out = d_out_;
    args_.d_params = d_param_pointers_, args_.accumulate = true;
    args_.batch = &batch_;
  }

  /// Puts other inputs, parameters, gradients, labels and samples into the same memory.
  void Load(uint32_t seed) {
    for (size_t i = 0; i < in_.size(); ++i) {
      Values values = DistinctValues(in_[i].count(), seed + i, 0.003f);
      if (below_ > 0) values = RandomValues(in_[i].count(), seed + i, 0, static_cast<float>(below_));
      for (float& value : values) value = below_ > 0 ? std::floor(value) : value;
      Write(in_[i], values);
    }
    for (size_t i = 0; i < d_out_.size(); ++i) Write(d_out_[i], RandomValues(d_out_[i].count(), seed + 50 + i));
    ++version_;
    for (size_t i = 0; i < params_.size(); ++i) {
      Write(params_[i], RandomValues(params_[i].count(), seed + 70 + i));
      Write(d_params_[i], RandomValues(params_[i].count(), seed + 80 + i));
      packed_[i].Refresh(version_);
    }
    Values labels = RandomValues(labels_.count(), seed + 90, 0, 5);
    for (float& label : labels) label = std::floor(label);
    Write(labels_, labels);
    const uint64_t first_sample = (uint64_t{1} << 40) + seed;
    if (device_->is_host()) batch_.first_sample = first_sample;  // the host's op reads this one
    Copy(const_cast<uint64_t*>(batch_.first_sample_on_device), &first_sample, sizeof(first_sample));
    const float loss_scale = seed % 2 == 0 ? 2.0f : 8.0f;
    if (device_->is_host()) batch_.loss_scale = loss_scale;
    Copy(const_cast<float*>(batch_.loss_scale_on_device), &loss_scale, sizeof(loss_scale));
  }
  void Call() {
    std::vector<ParamView> params;
    for (size_t i = 0; i < params_.size(); ++i) params.push_back({params_[i].floats(), version_, &packed_[i]});
    args_.params = params;
    op_->Forward(args_);
    op_->BackwardInput(args_);
    op_->BackwardParams(args_);
  }
  std::vector<Values> Results() {
    std::vector<Values> results;
    for (const Tensor& tensor : out_) results.push_back(Read(tensor));
    for (const Tensor& tensor : d_in_) results.push_back(Read(tensor));
    for (const Tensor& tensor : d_params_) results.push_back(Read(tensor));
    return results;
  }

  /// As before all work that is repeated.
  void RefreshPacked() {
    for (PackedParams& packed : packed_) packed.Refresh(version_);
  }

 private:
  std::byte* Allocate(size_t bytes) {
    buffers_.push_back(device_->Allocate(bytes).value());
    return buffers_.back().data();
  }
  Tensor Allocate(const TensorDesc& desc) { return {desc, Allocate(desc.bytes())}; }

  void Copy(void* to, const void* from, size_t bytes) {
    device_->Upload(Device::kCompute, to, from, bytes);
    ASSERT_TRUE(device_->Synchronize().ok());
  }
  void Write(const Tensor& tensor, Values values) {
    for (float& value : values) value = Rounded(element_, value);
    Values memory(values.size());
    WriteTensor({tensor.desc, memory.data()}, values);
    Copy(tensor.data, memory.data(), tensor.desc.bytes());
  }
  Values Read(const Tensor& tensor) {
    Values memory(tensor.count());
    device_->Download(Device::kCompute, memory.data(), tensor.data, tensor.desc.bytes());
    EXPECT_TRUE(device_->Synchronize().ok());
    return ReadTensor({tensor.desc, memory.data()});
  }

  Device* const device_;
  const ElementType element_;
  const int64_t below_;  ///< as in Case
  std::vector<Buffer> buffers_;
  std::unique_ptr<Op> op_;
  std::vector<Tensor> in_, out_, d_in_, d_out_, params_, d_params_;
  std::vector<float*> d_param_pointers_;
  std::vector<PackedParams> packed_;
  uint64_t version_ = 0;
  static constexpr int64_t kBatches = 3;  // of this size are the global batch; this one is the second
  Tensor labels_;
  BatchContext batch_;
  OpArgs args_;
};

class AgainstCpu : public testing::TestWithParam<TypedCase> {
 protected:
  AgainstCpu()
      : gpu_(NewGpuUnderTest(GetParam().element)),
        on_gpu_(gpu_.device.get(), gpu_.backend.get(), GetParam().c, GetParam().on_gpu(), GetParam().element) {}

  std::vector<Values> OnCpu(uint32_t seed) {
    Bench bench(cpu_.get(), cpu_backend_.get(), GetParam().c, GetParam().c.in, GetParam().element);
    bench.Load(seed);
    bench.Call();
    return bench.Results();
  }
  void ExpectSame(const std::vector<Values>& got, const std::vector<Values>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string what = "result " + std::to_string(i);
      if (Tolerance() == 0) {
        EXPECT_EQ(got[i], want[i]) << what;
      } else {
        ExpectNear(got[i], want[i], Tolerance(), what);
      }
    }
  }

  /// What is read is the same number on both sides; what is written is rounded.
  static float Tolerance() {
    const bool rounds = GetParam().element != ElementType::kFloat32;
    return GetParam().c.tolerance +
           (rounds ? static_cast<float>(GetParam().c.roundings) * RoundingError(GetParam().element) : 0);
  }

  const std::unique_ptr<Device> cpu_ = MakeHostDevice();
  const std::unique_ptr<Backend> cpu_backend_ = MakeCpuBackend();
  const BackendUnderTest gpu_;
  Bench on_gpu_;
};

TEST_P(AgainstCpu, OneCall) {
  on_gpu_.Load(1);
  on_gpu_.Call();
  ExpectSame(on_gpu_.Results(), OnCpu(1));
}

/// What is recorded with one micro-batch is right for the next, whose samples have other numbers, and whose parameters
/// are of another version. The first time is done directly.
TEST_P(AgainstCpu, RepeatedForAnotherMicroBatch) {
  for (uint32_t seed : {1, 2, 3, 4}) {
    on_gpu_.Load(seed);
    on_gpu_.RefreshPacked();
    gpu_.device->RunCaptured({1}, [&] { on_gpu_.Call(); });
    ExpectSame(on_gpu_.Results(), OnCpu(seed));
  }
  if (const auto* fake = dynamic_cast<const FakeGpu*>(gpu_.device.get())) {
    EXPECT_EQ(fake->recorded(), 1);
    EXPECT_EQ(fake->repeated(), 2);
  }
}

std::vector<TypedCase> TypedCases() {
  std::vector<TypedCase> cases;
  for (const Case& c : kCases) {
    cases.push_back({c});
    for (const ElementType element : {ElementType::kBFloat16, ElementType::kFloat16}) {
      cases.push_back({c, element});
      if (c.in.size() > 1) cases.push_back({c, element, true});
    }
  }
  return cases;
}

/// A kernel's arguments hold the addresses of so many.
TEST(Eltwise, TakesUpTo32Inputs) {
  const BackendUnderTest gpu = NewGpuUnderTest();
  const TensorDesc desc = {{2, 3}, 1};
  EXPECT_TRUE(gpu.backend->Eltwise({}, Backend::Descs(32, desc)).ok());
  const auto more = gpu.backend->Eltwise({}, Backend::Descs(33, desc));
  EXPECT_EQ(more.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(more.status().message(), "Eltwise has 33 bottoms; expected at most 32 on a GPU");
}

INSTANTIATE_TEST_SUITE_P(Ops, AgainstCpu, testing::ValuesIn(TypedCases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace hp::test

#include "test/unit/backend/op_cases.h"

namespace hp::test {
namespace {

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
auto Convolution(int64_t kernel, int64_t group, int64_t num_output = 8) {
  ConvolutionDesc desc;
  desc.num_output = num_output, desc.group = group;
  desc.kernel_h = desc.kernel_w = kernel, desc.stride_w = 2, desc.pad_h = 1;
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Convolution(desc, in); };
}
auto Deconvolution(int64_t kernel, int64_t group, int64_t num_output = 8) {
  ConvolutionDesc desc;
  desc.num_output = num_output, desc.group = group;
  desc.kernel_h = desc.kernel_w = kernel, desc.stride_w = 2, desc.pad_h = 1;
  return [=](Backend& backend, const Backend::Descs& in) { return backend.Deconvolution(desc, in); };
}
StatusOr<Backend::OpPtr> ConvolutionOfGroups(Backend& backend, const Backend::Descs& in) {
  ConvolutionDesc desc;
  desc.num_output = 64, desc.group = 2;
  desc.kernel_h = desc.kernel_w = 3, desc.pad_h = desc.pad_w = 1;
  return backend.Convolution(desc, in);
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
  return backend.ClassStatistics({{1, 1 + in[0].shape[1]}, 100 + in[0].shape[1]}, true, std::nullopt, in);
}
constexpr MarginDesc kMargin = {.scale = 8, .angle = 0.5f, .cosine = 0.1f};
StatusOr<Backend::OpPtr> MarginStatistics(Backend& backend, const Backend::Descs& in) {
  return backend.ClassStatistics({{1, 1 + in[0].shape[1]}, 100 + in[0].shape[1]}, true, kMargin, in);
}
StatusOr<Backend::OpPtr> MarginLoss(Backend& backend, const Backend::Descs& in) {
  return backend.SoftmaxLoss({.has_ignore_label = true, .ignore_label = 2, .probabilities = true, .margin = kMargin},
                             in);
}
StatusOr<Backend::OpPtr> TopScores(Backend& backend, const Backend::Descs& in) {
  return backend.TopScores({.top_k = 3}, {{1, 1 + in[0].shape[1]}, 100 + in[0].shape[1]}, in);
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
InfogainLossDesc WithGains(InfogainLossDesc desc, int64_t classes) {
  desc.matrix.resize(classes * classes);
  for (int64_t i = 0; i < classes * classes; ++i) desc.matrix[i] = static_cast<float>(i % 7) / 4 - 0.5f;
  return desc;
}
const auto kLogisticLoss = ElementLoss({.function = loss::Logistic{}, .targets = ElementLossDesc::kClasses});
OpCase OfShares(OpCase c) {
  c.shares = true;
  return c;
}
auto InfogainLoss(bool ignore, bool probabilities) {
  return [=](Backend& backend, const Backend::Descs& in) {
    InfogainLossDesc desc = {{.has_ignore_label = ignore, .ignore_label = 2, .loss_weight = 0.5f}, {}};
    desc.loss.probabilities = probabilities;
    return backend.InfogainLoss(WithGains(desc, in[0].shape[1]), in);
  };
}
auto LossAlong(int axis) {
  return [=](Backend& backend, const Backend::Descs& in) {
    return backend.SoftmaxLoss({.has_ignore_label = true, .ignore_label = 2, .probabilities = true, .axis = axis}, in);
  };
}
StatusOr<Backend::OpPtr> InfogainLossAlong2(Backend& backend, const Backend::Descs& in) {
  return backend.InfogainLoss(WithGains({.loss = {.probabilities = true, .axis = 2}, .matrix = {}}, in[0].shape[2]),
                              in);
}
StatusOr<Backend::OpPtr> AccuracyAlong2(Backend& backend, const Backend::Descs& in) {
  return backend.Accuracy({.top_k = 2, .axis = 2}, in);
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

const TensorDesc kDense = {{3, 12, 9, 7}, 1}, kNhwc = {{3, 12, 9, 7}, 12}, kOddNhwc = {{2, 13, 6, 5}, 13},
                 kManyPixels = {{2, 16, 30, 41}, 16}, kManyOddPixels = {{2, 5, 31, 41}, 5};
constexpr auto kMax = PoolingDesc::kMax, kAve = PoolingDesc::kAve;
constexpr auto kAcross = LrnDesc::kAcrossChannels, kWithin = LrnDesc::kWithinChannel;

/// The product, which can be twice as large as its sum with the bias, the bias, and the sum.
constexpr int kDeconvolved = 4;

const OpCase kCases[] = {
    {"max_dense", Pool(kMax, 3, 2, 0), {kDense}},
    {"max_nhwc", Pool(kMax, 3, 2, 1), {kNhwc}},
    {"max_nhwc_without_packs", Pool(kMax, 2, 2, 0), {kOddNhwc}},
    {"max_of_large_windows", Pool(kMax, 17, 1, 0), {{{2, 4, 19, 18}, 4}}},
    {"max_of_wide_rows", Pool(kMax, 3, 2, 0), {{{1, 16, 4, 301}, 16}}},
    {"average_of_wide_rows", Pool(kAve, 3, 2, 1), {{{1, 16, 4, 301}, 16}}, 1e-6f},
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
    {"batch_norm_of_many_pixels", BatchNorm(false), {kManyPixels}, 2e-5f, {{16}, {16}, {1}}},
    {"batch_norm_of_many_odd_pixels", BatchNorm(false), {kManyOddPixels}, 2e-5f, {{5}, {5}, {1}}},
    {"batch_norm_of_one_pixel", BatchNorm(false), {{{300, 12, 1, 1}, 12}}, 2e-5f, {{12}, {12}, {1}}},
    {"batch_norm_of_rows", BatchNorm(false), {{{40, 30}, 1}}, 2e-5f, {{30}, {30}, {1}}},
    {"scale_dense", Scale(1, 2, true), {kDense}, 2e-5f, {{12}, {12}}},
    {"scale_nhwc", Scale(1, 2, true), {kOddNhwc}, 2e-5f, {{13}, {13}}},
    // Sums of thousands of terms of up to 60, which are near 0.
    {"scale_of_many_pixels", Scale(1, 2, true), {kManyPixels}, 3e-4f, {{16}, {16}}},
    {"scale_of_many_odd_pixels", Scale(1, 2, true), {kManyOddPixels}, 3e-4f, {{5}, {5}}},
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
    {"concat_of_ten", Concat(1), std::vector<TensorDesc>(10, kNhwc)},
    {"concat_mixed", Concat(1), {kNhwc, kDense, {{3, 5, 9, 7}, 5}}},
    {"slice_nhwc", Slice(1, {4, 8}), {kNhwc}},
    {"slice_odd_nhwc", Slice(1, {1, 7, 5}), {kOddNhwc}},
    {"slice_dense", Slice(2, {4, 5}), {kDense}},
    {"crop_nhwc", Crop({0, 2, 1, 3}, {3, 9, 5, 4}), {kNhwc, kDense}},
    {"crop_dense", Crop({0, 0, 2, 0}, {3, 12, 5, 7}), {kDense, kDense}},
    {"tile_dense", Tile(1, 3), {kDense}},
    {"tile_of_long_rows", Tile(1, 3), {{{2, 40, 9, 7}, 1}}},
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
    {"mvn_of_many_pixels", Mvn(true, false), {kManyPixels}, 2e-5f},
    {"mvn_of_many_odd_pixels", Mvn(true, false), {kManyOddPixels}, 2e-5f},
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
    {"hinge_loss_of_maps",
     ElementLoss({.function = loss::Hinge<false>{}, .targets = ElementLossDesc::kClasses}),
     {kNhwc},
     1e-5f},
    OfShares({"logistic_loss", kLogisticLoss, {{{40, 5}, 1}}, 1e-5f}),
    OfShares({"logistic_loss_of_maps", kLogisticLoss, {kNhwc}, 1e-5f}),
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
    // 16 bytes of each group at least: GPUs may compute such groups one by one.
    {"convolution_of_groups", Convolution(3, 2, 32), {{{2, 16, 9, 7}, 16}}, 1e-4f, {{32, 8, 3, 3}, {32}}},
    // Sums of hundreds of terms of up to 49, some of which are near 0.
    {"convolution_of_larger_groups", ConvolutionOfGroups, {{{2, 64, 16, 16}, 64}}, 3e-3f, {{64, 32, 3, 3}, {64}}},
    {"convolution_of_dense_groups", Convolution(3, 4, 32), {{{2, 32, 9, 7}, 1}}, 1e-4f, {{32, 8, 3, 3}, {32}}},
    {"convolution_of_images", Convolution(3, 1), {{{3, 3, 9, 7}, 1}}, 1e-4f, {{8, 3, 3, 3}, {8}}},
    {"convolution_of_few_channels", Convolution(2, 1), {{{2, 5, 6, 5}, 5}}, 1e-4f, {{8, 5, 2, 2}, {8}}},
    {"convolution_1x1", Convolution(1, 1), {kOddNhwc}, 1e-4f, {{8, 13, 1, 1}, {8}}},
    {"deconvolution_dense", Deconvolution(3, 1), {kDense}, 1e-4f, {{12, 8, 3, 3}, {8}}, kDeconvolved},
    {"deconvolution_nhwc", Deconvolution(3, 2), {kNhwc}, 1e-4f, {{12, 4, 3, 3}, {8}}, kDeconvolved},
    {"deconvolution_of_groups",
     Deconvolution(3, 2, 32),
     {{{2, 16, 9, 7}, 16}},
     1e-4f,
     {{16, 16, 3, 3}, {32}},
     kDeconvolved},
    {"deconvolution_1x1", Deconvolution(1, 1), {kOddNhwc}, 1e-4f, {{13, 8, 1, 1}, {8}}, kDeconvolved},
    {"inner_product", InnerProduct, {{{40, 30}, 1}}, 1e-4f, {{11, 30}, {11}}},
    {"inner_product_of_blocks", InnerProduct, {kNhwc, {{3, 7}, 1}, kDense}, 1e-4f, {{11, 1519}, {11}}},
    {"inner_product_transposed", ProductOf(1, true), {kNhwc, {{3, 7}, 1}, kDense}, 1e-4f, {{1519, 11}, {11}}},
    {"inner_product_of_lines", ProductOf(3, false), {kNhwc}, 1e-4f, {{11, kNhwc.shape[3]}, {11}}},
    {"cosine_product", CosineProduct, {{{40, 30}, 1}}, 1e-4f, {{11, 30}}},
    {"cosine_product_of_blocks", CosineProduct, {kNhwc, {{3, 7}, 1}, kDense}, 1e-4f, {{11, 1519}}},
    {"softmax_nhwc", Softmax(1), {kNhwc}, 1e-6f},
    {"softmax_of_long_rows", Softmax(1), {{{3, 700}, 1}}, 1e-6f},
    {"softmax_of_rows_in_pieces", Softmax(1), {{{3, 40001}, 1}}, 1e-6f},
    {"softmax_of_pixels", Softmax(2), {kOddNhwc}, 1e-6f},
    {"loss", Loss(SoftmaxLossDesc::kFull, false), {{{40, 5}, 1}}, 1e-6f},
    {"loss_of_many_classes", Loss(SoftmaxLossDesc::kNone, true), {{{9, 100}, 1}}, 1e-5f},
    {"loss_of_rows_in_pieces", Loss(SoftmaxLossDesc::kNone, true), {{{3, 40001}, 1}}, 1e-5f},
    {"loss_of_valid_labels", Loss(SoftmaxLossDesc::kValid, true), {{{40, 5}, 1}}, 1e-6f},
    {"loss_along_the_last_axis", LossAlong(2), {{{40, 3, 5}, 1}}, 1e-5f, {}, 2, 0, 3},
    {"loss_along_the_height", LossAlong(2), {{{7, 6, 5, 4}, 6}}, 1e-5f, {}, 2, 0, 24},
    {"infogain_loss_along_the_height", InfogainLossAlong2, {{{7, 6, 5, 4}, 6}}, 1e-5f, {}, 2, 0, 24},
    {"accuracy_along_the_height", AccuracyAlong2, {{{7, 6, 5, 4}, 6}}, 0, {}, 2, 0, 24},
    {"infogain_loss", InfogainLoss(false, true), {{{40, 5}, 1}}, 1e-5f},
    {"infogain_loss_of_many_classes", InfogainLoss(false, false), {{{9, 100}, 1}}, 1e-5f},
    {"infogain_loss_of_valid_labels", InfogainLoss(true, false), {{{40, 5}, 1}}, 1e-5f},
    {"embed", Embed, {{{40, 5}, 1}}, 1e-5f, {{11, 9}, {9}}, 2, 11},
    {"embed_nhwc", Embed, {kNhwc}, 2e-4f, {{11, 9}, {9}}, 2, 11},
    {"accuracy", Accuracy(false), {{{40, 5}, 1}}},
    {"class_statistics", ClassStatistics, {{{40, 5}, 1}}, 1e-6f},
    {"class_statistics_of_many_classes", ClassStatistics, {{{9, 100}, 1}}, 1e-6f},
    {"class_statistics_of_rows_in_pieces", ClassStatistics, {{{3, 40001}, 1}}, 1e-5f},
    {"margin_statistics", MarginStatistics, {{{40, 5}, 1}}, 1e-5f},
    {"margin_statistics_of_many_classes", MarginStatistics, {{{9, 100}, 1}}, 1e-5f},
    {"margin_loss", MarginLoss, {{{40, 5}, 1}}, 1e-5f},
    {"margin_loss_of_many_classes", MarginLoss, {{{9, 100}, 1}}, 1e-5f},
    {"top_scores", TopScores, {{{40, 5}, 1}}},
    {"top_scores_of_rows_in_pieces", TopScores, {{{3, 40001}, 1}}},
    {"accuracy_of_valid_labels", Accuracy(true), {{{40, 5}, 1}}},
    {"accuracy_of_rows_in_pieces", Accuracy(false), {{{3, 40001}, 1}}},
};

}  // namespace

std::span<const OpCase> OpCases() { return kCases; }

}  // namespace hp::test

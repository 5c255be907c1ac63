#pragma once

#include "test/unit/backend/op_test_util.h"

#include <string>
#include <vector>

// What the tests of InnerProduct and CosineProduct share.
namespace hp::test {

/// A product of inputs in some layouts.
struct ProductCase {
  const char* name;
  std::vector<TensorDesc> in;
  int64_t num_output;
  bool bias = true;
  int axis = 1;             ///< InnerProductDesc::axis
  bool transposed = false;  ///< InnerProductDesc::transposed

  int64_t rows() const { return in[0].shape.count(0, axis); }
  int64_t columns() const {
    int64_t sum = 0;
    for (const TensorDesc& desc : in) sum += desc.shape.count(axis);
    return sum;
  }
  /// What get(i) yields of each input, [rows, K_i], side by side.
  template <typename Get>
  Values SideBySide(const Get& get) const {
    Values joined;
    for (int64_t row = 0; row < rows(); ++row) {
      for (size_t i = 0; i < in.size(); ++i) {
        const int64_t width = in[i].shape.count(axis);
        const Values values = get(static_cast<int>(i));
        joined.insert(joined.end(), values.begin() + row * width, values.begin() + (row + 1) * width);
      }
    }
    return joined;
  }
  /// The inputs; NHWC instead of blocks that the backend under test does not have.
  Backend::Descs Supported() const {
    Backend::Descs descs = in;
    for (TensorDesc& desc : descs) {
      if (!UnderTest().blocked_layouts && !desc.dense()) desc.channel_block = desc.shape[1];
    }
    return descs;
  }
};

inline const ProductCase kProductCases[] = {
    {"plain", {{{5, 12}, 1}}, 7},
    {"no bias", {{{4, 33}, 1}}, 10, false},
    {"one row, one output", {{{1, 5}, 1}}, 1},
    {"many rows", {{{70, 40}, 1}}, 19},
    {"many long rows", {{{66, 2100}, 1}}, 5},
    {"vectors and rests", {{{3, 131}, 1}}, 37},
    {"images, dense", {{{6, 4, 3, 2}, 1}}, 9},
    {"images, blocked", {{{6, 32, 3, 2}, 16}}, 9},
    {"images, NHWC", {{{6, 5, 3, 2}, 5}}, 20},
    {"one pixel, blocked", {{{2, 32, 1, 1}, 16}}, 4},
    {"two blocks", {{{4, 6}, 1}, {{4, 6}, 1}}, 8},
    {"two blocks, many rows", {{{40, 20}, 1}, {{40, 9}, 1}}, 12},
    {"two long blocks", {{{16, 1500}, 1}, {{16, 700}, 1}}, 9},
    {"uneven blocks", {{{5, 7}, 1}, {{5, 1}, 1}, {{5, 18}, 1}}, 11},
    {"blocks of several layouts", {{{3, 16, 2, 2}, 16}, {{3, 3, 2, 2}, 1}, {{3, 6, 3, 1}, 6}}, 10, false},
};

/// The case's name as GoogleTest takes it.
inline std::string NameOf(const testing::TestParamInfo<ProductCase>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

/// The parameters' gradient as BackwardParams makes it; bias behind the weights.
inline Values WholeGradient(OpRunner* runner) {
  runner->Forward();
  runner->BackwardParams();
  Values all = runner->ParamGradient(0);
  if (runner->params() > 1) {
    const Values bias = runner->ParamGradient(1);
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

/// The parameters' whole gradient from pieces of `step` rows, added to ones if `accumulate`; bias behind the weights.
inline Values GradientInPieces(OpRunner* runner, const ProductCase& c, int64_t step, bool accumulate) {
  const bool bias = runner->params() > 1;
  Values weights(c.num_output * c.columns(), accumulate ? 1.0f : std::nanf(""));
  Values d_bias(c.num_output, accumulate ? 1.0f : std::nanf(""));
  runner->Forward();
  WriteTensor(runner->d_out()[0], RandomValues(c.rows() * c.num_output, 22));
  runner->Call([&](OpArgs args) {
    args.accumulate = accumulate;
    args.d_params = {};
    args.saved = nullptr;  // as where the gradient of a whole update is made, later and by an op of its own
    runner->op()->BeginParamsRows(args);
    for (int64_t begin = 0; begin < c.num_output; begin += step) {
      const int64_t end = std::min(begin + step, c.num_output);
      runner->op()->BackwardParamsRows(args, begin, end, weights.data() + begin * c.columns(),
                                       bias ? d_bias.data() + begin : nullptr);
    }
  });
  if (bias) weights.insert(weights.end(), d_bias.begin(), d_bias.end());
  return weights;
}

}  // namespace hp::test

#pragma once

#include "test/unit/backend/op_test_util.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

// What the tests of convolutions and deconvolutions share: the tests are those of convolution_test.cc, the cases of
// either kind lie with the reference that they are held against.
namespace hp::test {

struct ConvolutionCase {
  const char* name;
  Shape in;
  int64_t num_output, kernel_h, kernel_w;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, group = 1;
  bool bias = true, input_gradient = true;
  Shape out;  // worked out by hand
  bool deconvolution = false;

  ConvolutionDesc desc() const;
  Shape weights() const {
    if (deconvolution) return {in[1], num_output / group, kernel_h, kernel_w};
    return {num_output, in[1] / group, kernel_h, kernel_w};
  }
};

inline ConvolutionDesc ConvolutionCase::desc() const {
  ConvolutionDesc desc;
  desc.num_output = num_output, desc.group = group;
  desc.kernel_h = kernel_h, desc.kernel_w = kernel_w;
  desc.stride_h = stride_h, desc.stride_w = stride_w;
  desc.pad_h = pad_h, desc.pad_w = pad_w;
  desc.dilation_h = dilation_h, desc.dilation_w = dilation_w;
  desc.bias = bias, desc.input_gradient = input_gradient;
  return desc;
}

/// The outputs as the definition says, in double. @param bias empty: none.
Values ConvolutionReference(const ConvolutionCase& c, const Values& in, const Values& weights, const Values& bias);
Values DeconvolutionReference(const ConvolutionCase& c, const Values& in, const Values& weights, const Values& bias);

inline void PrintTo(const ConvolutionCase& c, std::ostream* out) { *out << c.name; }

/// The test's name of a case.
inline std::string NameOf(const testing::TestParamInfo<ConvolutionCase>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class ConvolutionTest : public testing::TestWithParam<ConvolutionCase> {
 protected:
  /// Calls body(runner) with inputs and parameters set, for each layout of the input.
  template <typename Body>
  void ForEachLayout(const Body& body) {
    const ConvolutionCase& c = GetParam();
    std::vector<Shape> params = {c.weights()};
    if (c.bias) params.push_back({c.num_output});
    for (const TensorDesc& in : LayoutsOf(c.in)) {
      SCOPED_TRACE(std::string(c.name) + ", input in blocks of " + std::to_string(in.channel_block));
      Backend& backend = *UnderTest().backend;
      auto op = c.deconvolution ? backend.Deconvolution(c.desc(), {in}) : backend.Convolution(c.desc(), {in});
      ASSERT_TRUE(op.ok()) << op.status();
      ASSERT_EQ(op.value()->outputs()[0].shape, c.out);
      OpRunner runner(op->get(), {in}, params);
      runner.SetInput(0, RandomValues(c.in.count(), 1));
      runner.SetParam(0, RandomValues(params[0].count(), 2));
      if (c.bias) runner.SetParam(1, RandomValues(c.num_output, 3));
      body(&runner);
    }
  }
};

}  // namespace hp::test

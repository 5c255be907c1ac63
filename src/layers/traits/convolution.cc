#include "base/format.h"
#include "base/window.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "layers/traits/filler_check.h"
#include "proto/caffe.pb.h"

#include <span>
#include <utility>

namespace hp {
namespace {

using google::protobuf::RepeatedField;

std::span<const uint32_t> Values(const RepeatedField<uint32_t>& field) {
  return {field.data(), static_cast<size_t>(field.size())};
}

/// Bottoms have four axes, so axis -3 is axis 1, too.
Status CheckAxis(const caffe::LayerParameter& param) {
  const int axis = param.convolution_param().axis();
  if (axis == 1 || axis == -3) return OkStatus();
  return LayerError(
      param,
      "convolution_param { axis: %d }: expected 1, the channels of [rows, channels, height, width], or -3, "
      "which is the same; windows of one or three axes are not supported",
      axis);
}

StatusOr<ConvolutionWindow> ReadConvolutionWindow(const caffe::LayerParameter& param) {
  HP_RETURN_IF_ERROR(CheckAxis(param));
  const caffe::ConvolutionParameter& p = param.convolution_param();
  const char* const message = "convolution_param";
  ConvolutionWindow window;
  HP_ASSIGN_OR_RETURN(window.kernel, ReadWindowField(param,
                                                     {message, "kernel_size", "kernel", Values(p.kernel_size()),
                                                      p.has_kernel_h(), p.has_kernel_w(), p.kernel_h(), p.kernel_w()},
                                                     -1, 1));
  HP_ASSIGN_OR_RETURN(window.stride, ReadWindowField(param,
                                                     {message, "stride", "stride", Values(p.stride()), p.has_stride_h(),
                                                      p.has_stride_w(), p.stride_h(), p.stride_w()},
                                                     1, 1));
  HP_ASSIGN_OR_RETURN(
      window.pad,
      ReadWindowField(
          param, {message, "pad", "pad", Values(p.pad()), p.has_pad_h(), p.has_pad_w(), p.pad_h(), p.pad_w()}, 0, 0));
  HP_ASSIGN_OR_RETURN(window.dilation,
                      ReadWindowField(param, {message, "dilation", nullptr, Values(p.dilation())}, 1, 1));
  return window;
}

}  // namespace

StatusOr<ConvolutionFields> ReadConvolution(const caffe::LayerParameter& param) {
  const caffe::ConvolutionParameter& convolution = param.convolution_param();
  ConvolutionFields fields;
  fields.num_output = convolution.num_output();
  fields.group = convolution.group();
  fields.bias = convolution.bias_term();
  if (fields.num_output < 1) {
    return LayerError(param, "convolution_param: num_output is missing or 0; expected at least 1");
  }
  HP_RETURN_IF_ERROR(CheckDim(param, "convolution_param { num_output", convolution.num_output()));
  if (fields.group < 1 || fields.num_output % fields.group != 0) {
    return LayerError(param, "convolution_param { group: %lld } does not divide num_output: %lld",
                      static_cast<long long>(fields.group), static_cast<long long>(fields.num_output));
  }
  HP_ASSIGN_OR_RETURN(fields.window, ReadConvolutionWindow(param));
  return fields;
}

StatusOr<ConvolutionWindow> ReadIm2col(const caffe::LayerParameter& param) {
  const caffe::ConvolutionParameter& p = param.convolution_param();
  const std::pair<bool, const char*> foreign[] = {{p.has_num_output(), "num_output"},
                                                  {p.has_group(), "group"},
                                                  {p.has_bias_term(), "bias_term"},
                                                  {p.has_weight_filler(), "weight_filler"},
                                                  {p.has_bias_filler(), "bias_filler"}};
  for (const auto& [is_set, name] : foreign) {
    if (!is_set) continue;
    return LayerError(param, "convolution_param { %s }: Im2col has no weights; expected a window alone", name);
  }
  return ReadConvolutionWindow(param);
}

namespace {

Status CheckConvolution(const caffe::LayerParameter& param) { return ReadConvolution(param).status(); }

int ConvolutionBlobs(const caffe::LayerParameter& param) { return param.convolution_param().bias_term() ? 2 : 1; }

/// @param first,second channels of the weights, of all groups and of one.
std::vector<ParamSpec> ParamsOf(const caffe::LayerParameter& param, const ConvolutionFields& fields, int64_t first,
                                int64_t second) {
  const caffe::ConvolutionParameter& convolution = param.convolution_param();
  std::vector<ParamSpec> specs(fields.bias ? 2 : 1);
  specs[0].shape = Shape{first, second, fields.window.kernel.height, fields.window.kernel.width};
  if (convolution.has_weight_filler()) specs[0].filler = &convolution.weight_filler();
  if (!fields.bias) return specs;
  specs[1].shape = Shape{fields.num_output};
  if (convolution.has_bias_filler()) specs[1].filler = &convolution.bias_filler();
  return specs;
}

std::vector<ParamSpec> ConvolutionParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const ConvolutionFields fields = ReadConvolution(param).value();
  return ParamsOf(param, fields, fields.num_output, in[0][1] / fields.group);
}

std::vector<ParamSpec> DeconvolutionParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const ConvolutionFields fields = ReadConvolution(param).value();
  return ParamsOf(param, fields, in[0][1], fields.num_output / fields.group);
}

Status CheckFillers(const caffe::LayerParameter& param, const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) {
    if (spec.filler == nullptr) continue;
    const std::string where = Format("layer \"%s\": convolution_param: %s", param.name().c_str(),
                                     spec.shape.rank() > 1 ? "weight_filler" : "bias_filler");
    HP_RETURN_IF_ERROR(CheckFiller(*spec.filler, spec.shape, where));
  }
  return OkStatus();
}

Status CheckRank(const caffe::LayerParameter& param, const Shape& shape) {
  if (shape.rank() == 4) return OkStatus();
  return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                    shape.ToString().c_str());
}

Status CheckBottom(const caffe::LayerParameter& param, const ConvolutionFields& fields, const Shape& shape) {
  HP_RETURN_IF_ERROR(CheckRank(param, shape));
  if (shape[1] % fields.group == 0) return OkStatus();
  return LayerError(param, "convolution_param { group: %lld } does not divide the bottom's %lld channels",
                    static_cast<long long>(fields.group), static_cast<long long>(shape[1]));
}

/// [rows, channels, H', W'] of the windows over a bottom.
StatusOr<Shape> WindowsOver(const caffe::LayerParameter& param, const ConvolutionWindow& window, const Shape& shape,
                            int64_t channels) {
  const auto& [kernel, stride, pad, dilation] = window;
  const int64_t height = ConvolvedSize(shape[2], kernel.height, stride.height, pad.height, dilation.height);
  const int64_t width = ConvolvedSize(shape[3], kernel.width, stride.width, pad.width, dilation.width);
  if (height >= 1 && width >= 1) return Shape{shape[0], channels, height, width};
  return LayerError(param, "a kernel of %lld x %lld does not fit into bottom shape [%s] with its padding",
                    static_cast<long long>(kernel.height), static_cast<long long>(kernel.width),
                    shape.ToString().c_str());
}

StatusOr<std::vector<Shape>> ConvolutionShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionFields fields, ReadConvolution(param));
  HP_RETURN_IF_ERROR(CheckBottom(param, fields, in[0]));
  HP_ASSIGN_OR_RETURN(const Shape out, WindowsOver(param, fields.window, in[0], fields.num_output));
  HP_RETURN_IF_ERROR(CheckFillers(param, ConvolutionParams(param, in)));
  return std::vector<Shape>{out};
}

Status CheckIm2col(const caffe::LayerParameter& param) { return ReadIm2col(param).status(); }

StatusOr<std::vector<Shape>> Im2colShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionWindow window, ReadIm2col(param));
  HP_RETURN_IF_ERROR(CheckRank(param, in[0]));
  const int64_t taps = window.kernel.height * window.kernel.width;  // at most 2^40
  if (in[0][1] > Shape::kMaxDim / taps) {
    return LayerError(param,
                      "a kernel of %lld x %lld is too large for bottom shape [%s]; expected a top of at most %lld "
                      "channels",
                      static_cast<long long>(window.kernel.height), static_cast<long long>(window.kernel.width),
                      in[0].ToString().c_str(), static_cast<long long>(Shape::kMaxDim));
  }
  HP_ASSIGN_OR_RETURN(const Shape out, WindowsOver(param, window, in[0], in[0][1] * taps));
  return std::vector<Shape>{out};
}

StatusOr<std::vector<Shape>> DeconvolutionShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionFields fields, ReadConvolution(param));
  const Shape& shape = in[0];
  HP_RETURN_IF_ERROR(CheckBottom(param, fields, shape));
  const auto& [kernel, stride, pad, dilation] = fields.window;
  const int64_t height = DeconvolvedSize(shape[2], kernel.height, stride.height, pad.height, dilation.height);
  const int64_t width = DeconvolvedSize(shape[3], kernel.width, stride.width, pad.width, dilation.width);
  if (height < 1 || width < 1) {
    return LayerError(param, "pad %lld x %lld leaves nothing of what bottom shape [%s] becomes; expected a smaller one",
                      static_cast<long long>(pad.height), static_cast<long long>(pad.width), shape.ToString().c_str());
  }
  HP_RETURN_IF_ERROR(CheckFillers(param, DeconvolutionParams(param, in)));
  return std::vector<Shape>{Shape{shape[0], fields.num_output, height, width}};
}

}  // namespace

LayerType ConvolutionType() {
  return {.name = "Convolution",
          .fields = {"convolution_param"},
          .check = CheckConvolution,
          .output_shapes = ConvolutionShapes,
          .most_blobs = 2,
          .blobs = ConvolutionBlobs,
          .params = ConvolutionParams};
}

LayerType Im2colType() {
  return {.name = "Im2col", .fields = {"convolution_param"}, .check = CheckIm2col, .output_shapes = Im2colShapes};
}

LayerType DeconvolutionType() {
  return {.name = "Deconvolution",
          .fields = {"convolution_param"},
          .deconvolves = true,
          .check = CheckConvolution,
          .output_shapes = DeconvolutionShapes,
          .most_blobs = 2,
          .blobs = ConvolutionBlobs,
          .params = DeconvolutionParams};
}

}  // namespace hp

#include "backend/window.h"
#include "base/format.h"
#include "layers/errors.h"
#include "layers/factories.h"
#include "layers/filler.h"
#include "layers/window_fields.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

using google::protobuf::RepeatedField;

std::span<const uint32_t> Values(const RepeatedField<uint32_t>& field) {
  return {field.data(), static_cast<size_t>(field.size())};
}

/// 2-D convolution. `engine` and `force_nd_im2col` choose between implementations of the same function: accepted.
class ConvolutionLayer : public Layer {
 public:
  ConvolutionLayer(const caffe::LayerParameter& param, const ConvolutionDesc& desc) : Layer(param), desc_(desc) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    const Shape& shape = in[0];
    if (shape.rank() != 4) {
      return LayerError(param_, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                        shape.ToString().c_str());
    }
    if (shape[1] % desc_.group != 0) {
      return LayerError(param_, "convolution_param { group: %lld } does not divide the bottom's %lld channels",
                        static_cast<long long>(desc_.group), static_cast<long long>(shape[1]));
    }
    const int64_t height = ConvolvedSize(shape[2], desc_.kernel_h, desc_.stride_h, desc_.pad_h, desc_.dilation_h);
    const int64_t width = ConvolvedSize(shape[3], desc_.kernel_w, desc_.stride_w, desc_.pad_w, desc_.dilation_w);
    if (height < 1 || width < 1) {
      return LayerError(param_, "a kernel of %lld x %lld does not fit into bottom shape [%s] with its padding",
                        static_cast<long long>(desc_.kernel_h), static_cast<long long>(desc_.kernel_w),
                        shape.ToString().c_str());
    }
    HP_RETURN_IF_ERROR(CheckFillers(in));
    return std::vector<Shape>{Shape{shape[0], desc_.num_output, height, width}};
  }

  std::vector<ParamSpec> Params(const std::vector<Shape>& in) const override {
    const caffe::ConvolutionParameter& convolution = param_.convolution_param();
    std::vector<ParamSpec> specs(desc_.bias ? 2 : 1);
    specs[0].name = name() + ".0";
    specs[0].shape = Shape{desc_.num_output, in[0][1] / desc_.group, desc_.kernel_h, desc_.kernel_w};
    if (convolution.has_weight_filler()) specs[0].filler = &convolution.weight_filler();
    SetMultipliers(0, &specs[0]);
    if (!desc_.bias) return specs;
    specs[1].name = name() + ".1";
    specs[1].shape = Shape{desc_.num_output};
    if (convolution.has_bias_filler()) specs[1].filler = &convolution.bias_filler();
    SetMultipliers(1, &specs[1]);
    return specs;
  }

  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    ConvolutionDesc desc = desc_;
    desc.input_gradient = context.input_gradient;
    return context.backend->Convolution(desc, in);
  }

 private:
  Status CheckFillers(const std::vector<Shape>& in) const {
    for (const ParamSpec& spec : Params(in)) {
      if (spec.filler == nullptr) continue;
      const std::string where = Format("layer \"%s\": convolution_param: %s", name().c_str(),
                                       spec.shape.rank() > 1 ? "weight_filler" : "bias_filler");
      HP_RETURN_IF_ERROR(CheckFiller(*spec.filler, spec.shape, where));
    }
    return OkStatus();
  }

  const ConvolutionDesc desc_;
};

Status ReadWindow(const caffe::LayerParameter& param, ConvolutionDesc* desc) {
  const caffe::ConvolutionParameter& p = param.convolution_param();
  const char* const message = "convolution_param";
  HP_ASSIGN_OR_RETURN(const HeightWidth kernel,
                      ReadWindowField(param,
                                      {message, "kernel_size", "kernel", Values(p.kernel_size()), p.has_kernel_h(),
                                       p.has_kernel_w(), p.kernel_h(), p.kernel_w()},
                                      -1, 1));
  HP_ASSIGN_OR_RETURN(const HeightWidth stride,
                      ReadWindowField(param,
                                      {message, "stride", "stride", Values(p.stride()), p.has_stride_h(),
                                       p.has_stride_w(), p.stride_h(), p.stride_w()},
                                      1, 1));
  HP_ASSIGN_OR_RETURN(
      const HeightWidth pad,
      ReadWindowField(
          param, {message, "pad", "pad", Values(p.pad()), p.has_pad_h(), p.has_pad_w(), p.pad_h(), p.pad_w()}, 0, 0));
  HP_ASSIGN_OR_RETURN(const HeightWidth dilation,
                      ReadWindowField(param, {message, "dilation", nullptr, Values(p.dilation())}, 1, 1));
  desc->kernel_h = kernel.height, desc->kernel_w = kernel.width;
  desc->stride_h = stride.height, desc->stride_w = stride.width;
  desc->pad_h = pad.height, desc->pad_w = pad.width;
  desc->dilation_h = dilation.height, desc->dilation_w = dilation.width;
  return OkStatus();
}

}  // namespace

StatusOr<LayerPtr> MakeConvolutionLayer(const caffe::LayerParameter& param) {
  const caffe::ConvolutionParameter& convolution = param.convolution_param();
  ConvolutionDesc desc;
  desc.num_output = convolution.num_output();
  desc.group = convolution.group();
  desc.bias = convolution.bias_term();
  if (desc.num_output < 1) return LayerError(param, "convolution_param has no num_output, or 0; expected at least 1");
  if (desc.group < 1 || desc.num_output % desc.group != 0) {
    return LayerError(param, "convolution_param { group: %lld } does not divide num_output: %lld",
                      static_cast<long long>(desc.group), static_cast<long long>(desc.num_output));
  }
  if (convolution.axis() != 1) {
    return LayerError(param, "convolution_param { axis: %d } is not supported; expected 1 (channels)",
                      convolution.axis());
  }
  HP_RETURN_IF_ERROR(ReadWindow(param, &desc));
  return LayerPtr(std::make_unique<ConvolutionLayer>(param, desc));
}

}  // namespace hp

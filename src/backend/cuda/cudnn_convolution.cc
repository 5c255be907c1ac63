// A convolution as up to three plans of cuDNN's graph API, one operation graph each. The forward graph includes the
// bias where cuDNN has an engine for it, else a kernel adds the bias to y. Strides describe the layout of all tensors.
#include "backend/cuda/cudnn_convolution.h"

#include "backend/cuda/add_bias.h"
#include "backend/window.h"
#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

using Id = CudnnConvolutionPlans::Id;

std::string Describe(const ConvolutionDesc& d, const Shape& in) {
  return Format(
      "convolution of [%s] by %lld x %lld x %lld, stride %lld x %lld, pad %lld x %lld, dilation %lld x %lld, group "
      "%lld",
      in.ToString().c_str(), static_cast<long long>(d.num_output), static_cast<long long>(d.kernel_h),
      static_cast<long long>(d.kernel_w), static_cast<long long>(d.stride_h), static_cast<long long>(d.stride_w),
      static_cast<long long>(d.pad_h), static_cast<long long>(d.pad_w), static_cast<long long>(d.dilation_h),
      static_cast<long long>(d.dilation_w), static_cast<long long>(d.group));
}

/// @param dims in the order of NCHW, in either layout.
CudnnDescriptor TensorOf(Id id, cudnnDataType_t type, const std::vector<int64_t>& dims, bool nhwc, bool is_virtual,
                         const std::string& what) {
  const int64_t image = dims[1] * dims[2] * dims[3];
  const std::vector<int64_t> of_nhwc = {image, 1, dims[1] * dims[3], dims[1]};
  const std::vector<int64_t> of_nchw = {image, dims[2] * dims[3], dims[3], 1};
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, what + ", tensor " + static_cast<char>(id));
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.SetAll(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.SetAll(CUDNN_ATTR_TENSOR_STRIDES, nhwc ? of_nhwc : of_nchw);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<int64_t>(id));
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnnAlignment);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  return tensor;
}

CudnnDescriptor WindowOf(const ConvolutionDesc& desc, const std::string& what) {
  const std::vector<int64_t> pads = {desc.pad_h, desc.pad_w};
  CudnnDescriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what + ", window");
  window.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  window.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  window.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  window.SetAll(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{desc.dilation_h, desc.dilation_w});
  window.SetAll(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{desc.stride_h, desc.stride_w});
  window.SetAll(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pads);
  window.SetAll(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads);
  return window;
}

/// Which attributes the three kinds of convolution have; all scale by alpha and beta.
struct Kind {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, y, weights, window, alpha, beta;
};
constexpr Kind kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Kind kBackwardInput = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Kind kBackwardWeights = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

/// A descriptor that can't be finalised hands its status on to what it is set into, at last to the graph.
void Finish(CudnnDescriptor descriptor, std::vector<CudnnDescriptor>* to) {
  [[maybe_unused]] const Status handed_on = descriptor.Finalize();
  to->push_back(std::move(descriptor));
}

/// Builds the operations of one convolution.
class Builder {
 public:
  Builder(const ConvolutionDesc& desc, const Shape& in, const Shape& out, cudnnDataType_t type, bool nhwc)
      : desc_(desc),
        type_(type),
        nhwc_(nhwc),
        x_{in.dims()},
        y_{out.dims()},
        weights_{desc.num_output, in[1] / desc.group, desc.kernel_h, desc.kernel_w},
        what_(Describe(desc, in)) {}

  const std::string& what() const { return what_; }

  CudnnOperations Convolution(const Kind& kind) const {
    CudnnOperations operations;
    Convolve(kind, Id::kY, &operations);
    return operations;
  }

  /// y = p + b with p = conv(x, W), which is nowhere in memory.
  CudnnOperations ForwardWithBias() const {
    CudnnOperations operations;
    Convolve(kForward, Id::kProduct, &operations);
    AddBias(Id::kY, &operations);
    return operations;
  }
  /// y = max(p + b, 0); neither p nor the sum are in memory.
  CudnnOperations ForwardWithRelu() const {
    CudnnOperations operations;
    Convolve(kForward, Id::kProduct, &operations);
    const size_t sum = AddBias(Id::kSum, &operations);
    CudnnDescriptor relu(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what_ + ", ReLU");
    relu.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD);
    relu.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    relu.Set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
    Pointwise(std::move(relu), sum, {}, Id::kY, &operations);
    return operations;
  }

 private:
  static constexpr size_t kProductPart = 1;  // of parts, by Convolve

  /// y = p + b. @return the number of y's part.
  size_t AddBias(Id y, CudnnOperations* operations) const {
    // Of the others' type: cuDNN has no engine for a float32 bias beside 16 bits.
    Finish(TensorOf(Id::kBias, type_, {1, desc_.num_output, 1, 1}, nhwc_, false, what_), &operations->parts);
    const size_t bias = operations->parts.size() - 1;
    CudnnDescriptor add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what_ + ", sum");
    add.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    add.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    return Pointwise(std::move(add), kProductPart, bias, y, operations);
  }

  /// @param x, b numbers of parts. @param y becomes a part as well. @return its number.
  size_t Pointwise(CudnnDescriptor function, size_t x, std::optional<size_t> b, Id y,
                   CudnnOperations* operations) const {
    std::vector<CudnnDescriptor>& parts = operations->parts;
    Finish(Value(y), &parts);
    Finish(std::move(function), &parts);
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what_ + ", tensor " + static_cast<char>(y));
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts.back());
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts[x]);
    if (b) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts[*b]);
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts[parts.size() - 2]);
    Finish(std::move(operation), &operations->operations);
    return parts.size() - 2;
  }

  /// A tensor of y's shape: y itself, or float32 that is nowhere in memory.
  CudnnDescriptor Value(Id id) const {
    const bool inner = id != Id::kY;
    return TensorOf(id, inner ? CUDNN_DATA_FLOAT : type_, y_, nhwc_, inner, what_);
  }

  /// Parts: x, y, weights, window.
  void Convolve(const Kind& kind, Id y, CudnnOperations* operations) const {
    std::vector<CudnnDescriptor>& parts = operations->parts;
    Finish(TensorOf(Id::kX, type_, x_, nhwc_, false, what_), &parts);
    Finish(Value(y), &parts);
    Finish(TensorOf(Id::kWeights, type_, weights_, nhwc_, false, what_), &parts);
    Finish(WindowOf(desc_, what_), &parts);
    CudnnDescriptor operation(kind.type, what_);
    operation.Set(kind.x, parts[0]);
    operation.Set(kind.y, parts[1]);
    operation.Set(kind.weights, parts[2]);
    operation.Set(kind.window, parts[3]);
    operation.Set(kind.alpha, 1.0f);
    operation.Set(kind.beta, 0.0f);
    Finish(std::move(operation), &operations->operations);
  }

  const ConvolutionDesc desc_;
  const cudnnDataType_t type_;
  const bool nhwc_;
  const std::vector<int64_t> x_, y_, weights_;
  const std::string what_;
};

class CudnnConvolution final : public GpuConvolution {
 public:
  CudnnConvolution(Gpu* gpu, const CudnnTarget& target, const ConvolutionDesc& desc, const Shape& in,
                   CudnnConvolutionPlans plans)
      : gpu_(gpu), target_(target), desc_(desc), in_(in), plans_(std::move(plans)) {}

  bool nhwc() const override { return plans_.nhwc; }
  size_t workspace_bytes() const override {
    const size_t bytes = std::max(plans_.forward.workspace_bytes(), plans_.backward_weights.workspace_bytes());
    return plans_.backward_input ? std::max(bytes, plans_.backward_input->workspace_bytes()) : bytes;
  }

  /// Together with the bias, in cuDNN's kernel or in the own one that adds it. Without one cuDNN has no engine for it.
  bool TakeRelu() override {
    if (!desc_.bias) return false;
    StatusOr<CudnnPlan> fused = CudnnConvolutionPlans::MakeForwardWithRelu(target_, desc_, in_, plans_.nhwc);
    if (fused.ok()) {
      plans_.forward = *std::move(fused);
      plans_.bias_fused = true;
      return true;
    }
    relu_beside_bias_ = !plans_.bias_fused;
    return relu_beside_bias_;
  }

  void Forward(const void* x, const void* weights, const void* bias, void* y, std::byte* workspace) override {
    std::vector<std::pair<int64_t, const void*>> pointers = {{Id::kX, x}, {Id::kWeights, weights}, {Id::kY, y}};
    if (plans_.bias_fused) pointers.push_back({Id::kBias, bias});
    Run(plans_.forward, pointers, workspace);
    if (bias == nullptr || plans_.bias_fused) return;
    const TensorDesc desc = {plans_.out, plans_.nhwc ? plans_.out[1] : 1, plans_.element};
    cuda::AddChannelBias(gpu_->stream(Device::kCompute), desc, bias, y, relu_beside_bias_);
  }
  void BackwardInput(const void* dy, const void* weights, void* dx, std::byte* workspace) override {
    CHECK(plans_.backward_input) << "no gradient of the input was asked for";
    Run(*plans_.backward_input, {{Id::kX, dx}, {Id::kWeights, weights}, {Id::kY, dy}}, workspace);
  }
  void BackwardWeights(const void* x, const void* dy, void* d_weights, std::byte* workspace) override {
    Run(plans_.backward_weights, {{Id::kX, x}, {Id::kWeights, d_weights}, {Id::kY, dy}}, workspace);
  }

 private:
  void Run(const CudnnPlan& plan, const std::vector<std::pair<int64_t, const void*>>& pointers, std::byte* workspace) {
    if (const Status status = plan.Run(target_.handle, pointers, workspace); !status.ok()) gpu_->Fail(status);
  }

  Gpu* const gpu_;
  const CudnnTarget target_;
  const ConvolutionDesc desc_;
  const Shape in_;
  CudnnConvolutionPlans plans_;
  bool relu_beside_bias_ = false;
};

}  // namespace

StatusOr<CudnnConvolutionPlans> CudnnConvolutionPlans::Make(const CudnnTarget& target, const ConvolutionDesc& desc,
                                                            const Shape& in, bool nhwc) {
  CudnnConvolutionPlans plans;
  plans.nhwc = nhwc;
  plans.element = ElementOf(target.math);
  plans.out = ConvolvedShape(desc, in);
  const Builder builder(desc, in, plans.out, CudnnTypeOf(plans.element), nhwc);
  if (desc.bias) {
    StatusOr<CudnnPlan> fused = CudnnPlan::Make(target, builder.ForwardWithBias(), builder.what() + " plus bias");
    plans.bias_fused = fused.ok();
    if (fused.ok()) plans.forward = *std::move(fused);
  }
  if (!plans.bias_fused) {
    HP_ASSIGN_OR_RETURN(plans.forward, CudnnPlan::Make(target, builder.Convolution(kForward), builder.what()));
  }
  HP_ASSIGN_OR_RETURN(plans.backward_weights, CudnnPlan::Make(target, builder.Convolution(kBackwardWeights),
                                                              "weight gradient of " + builder.what()));
  if (!desc.input_gradient) return plans;
  HP_ASSIGN_OR_RETURN(plans.backward_input, CudnnPlan::Make(target, builder.Convolution(kBackwardInput),
                                                            "input gradient of " + builder.what()));
  return plans;
}

StatusOr<CudnnPlan> CudnnConvolutionPlans::MakeForwardWithRelu(const CudnnTarget& target, const ConvolutionDesc& desc,
                                                               const Shape& in, bool nhwc) {
  const Builder builder(desc, in, ConvolvedShape(desc, in), CudnnTypeOf(ElementOf(target.math)), nhwc);
  return CudnnPlan::Make(target, builder.ForwardWithRelu(), builder.what() + " plus ReLU");
}

StatusOr<std::unique_ptr<GpuConvolution>> MakeCudnnConvolution(Gpu* gpu, const CudnnTarget& target,
                                                               const ConvolutionDesc& desc, const Shape& in) {
  const bool nhwc = PrefersNhwc(target.math);
  HP_ASSIGN_OR_RETURN(CudnnConvolutionPlans plans, CudnnConvolutionPlans::Make(target, desc, in, nhwc));
  return std::unique_ptr<GpuConvolution>(std::make_unique<CudnnConvolution>(gpu, target, desc, in, std::move(plans)));
}

}  // namespace hp

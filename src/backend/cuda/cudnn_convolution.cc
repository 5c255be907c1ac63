// A convolution as up to three plans of cuDNN's graph API, one operation graph each. The forward graph includes the
// bias where cuDNN has an engine for it, else a kernel adds the bias to y. Strides describe the layout of all tensors.
#include "backend/cuda/cudnn_convolution.h"

#include "backend/cuda/add_bias.h"
#include "backend/cuda/nan_probe.h"
#include "backend/window.h"
#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

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
  const std::vector<int64_t> of_nhwc = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
  const std::vector<int64_t> of_nchw = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
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

// --- Groups one by one

ConvolutionDesc OneGroup(ConvolutionDesc desc) {
  desc.num_output /= desc.group;
  desc.group = 1;
  return desc;
}

bool UseTensorCores(const CudnnConvolutionPlans& plans) {
  const auto use = [](const CudnnPlan& plan) {
    return std::count(plan.notes().begin(), plan.notes().end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
  };
  return use(plans.forward) && use(plans.backward_weights) && (!plans.backward_input || use(*plans.backward_input));
}

/// Whether a plan copies x or y, as its workspace says.
bool Copies(const CudnnConvolutionPlans& plans) {
  return plans.workspace_bytes() >= std::min(plans.in.count(), plans.out.count()) * BytesOf(plans.element);
}

/// Whether pixels, weights and biases of each group begin where plans want them to.
bool MayLieInGroups(const ConvolutionDesc& desc, const Shape& in, ElementType element) {
  constexpr int64_t kMostGroups = 4;  // launches cost too
  const auto aligned = [element](int64_t channels) {
    return channels * static_cast<int64_t>(BytesOf(element)) % GpuConvolution::kAlignment == 0;
  };
  return desc.group > 1 && desc.group <= kMostGroups && aligned(in[1] / desc.group) &&
         aligned(desc.num_output / desc.group);
}

class CudnnConvolution final : public GpuConvolution {
 public:
  CudnnConvolution(Gpu* gpu, const CudnnTarget& target, const ConvolutionDesc& desc, CudnnConvolutionPlans plans)
      : gpu_(gpu), target_(target), desc_(desc), plans_(std::move(plans)) {}

  bool nhwc() const override { return plans_.nhwc; }
  int64_t groups() const override { return plans_.groups; }
  size_t workspace_bytes() const override { return plans_.workspace_bytes(); }

  /// Together with the bias, in cuDNN's kernel or in the own one that adds it. Without one cuDNN has no engine for it.
  bool TakeRelu() override {
    if (!desc_.bias) return false;
    if (StatusOr<CudnnPlan> fused = ForwardWithRelu(); fused.ok()) {
      std::swap(plans_.forward, *fused);
      const bool bias_fused = std::exchange(plans_.bias_fused, true);
      if (KeepsNans(plans_.forward) || HandsNansOn()) return true;
      VLOG(1) << "a plan that loses NaNs in its ReLU is passed over: " << desc_.num_output << " outputs of "
              << plans_.in.ToString();
      plans_.forward = *std::move(fused);
      plans_.bias_fused = bias_fused;
    }
    relu_beside_bias_ = !plans_.bias_fused;
    return relu_beside_bias_;
  }

  void Forward(const void* x, const void* weights, const void* bias, void* y, std::byte* workspace) override {
    Run(plans_.forward, x, weights, plans_.bias_fused ? bias : nullptr, y, workspace);
    if (bias == nullptr || plans_.bias_fused) return;
    const TensorDesc desc = {plans_.out, plans_.nhwc ? plans_.out[1] : 1, plans_.element};
    for (int64_t group = 0; group < plans_.groups; ++group) {
      const auto* const of_group = static_cast<const std::byte*>(bias) + group * plans_.out[1] * BytesOf(desc.element);
      cuda::AddChannelBias(gpu_->stream(Device::kCompute), desc, of_group,
                           static_cast<std::byte*>(y) + group * desc.bytes(), relu_beside_bias_);
    }
  }
  void BackwardInput(const void* dy, const void* weights, void* dx, std::byte* workspace) override {
    CHECK(plans_.backward_input) << "no gradient of the input was asked for";
    Run(*plans_.backward_input, dx, weights, nullptr, dy, workspace);
  }
  void BackwardWeights(const void* x, const void* dy, void* d_weights, std::byte* workspace) override {
    Run(plans_.backward_weights, x, d_weights, nullptr, dy, workspace);
  }

 private:
  StatusOr<CudnnPlan> ForwardWithRelu() const {
    const ConvolutionDesc desc = plans_.groups == 1 ? desc_ : OneGroup(desc_);
    return CudnnConvolutionPlans::MakeForwardWithRelu(target_, desc, plans_.in, plans_.nhwc);
  }
  static bool KeepsNans(const CudnnPlan& plan) {
    return std::count(plan.notes().begin(), plan.notes().end(), CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) > 0;
  }
  bool HandsNansOn() {
    const int64_t groups = plans_.groups;
    const ConvolutionCounts counts = {groups * plans_.in.count(), groups * plans_.weights, groups * plans_.out[1],
                                      groups * plans_.out.count()};
    const StatusOr<bool> hands_on = hp::HandsNansOn(gpu_, this, counts, plans_.element);
    if (hands_on.ok()) return *hands_on;
    // Which plan is taken must not depend on what memory is free.
    LOG(WARNING) << "whether a ReLU hands NaNs on can't be told: " << hands_on.status();
    return true;
  }
  /// All groups by one plan, or one after the other.
  void Run(const CudnnPlan& plan, const void* x, const void* weights, const void* bias, const void* y,
           std::byte* workspace) {
    for (int64_t group = 0; group < plans_.groups; ++group) {
      const Status status = plan.Run(target_.handle, plans_.PointersOf(group, x, weights, bias, y), workspace);
      if (!status.ok()) gpu_->Fail(status);
    }
  }

  Gpu* const gpu_;
  const CudnnTarget target_;
  const ConvolutionDesc desc_;
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
  plans.in = in;
  plans.weights = desc.num_output * (in[1] / desc.group) * desc.kernel_h * desc.kernel_w;
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

StatusOr<CudnnConvolutionPlans> CudnnConvolutionPlans::MakeBest(const CudnnTarget& target, const ConvolutionDesc& desc,
                                                                const Shape& in) {
  const bool nhwc = PrefersNhwc(target.math);
  HP_ASSIGN_OR_RETURN(CudnnConvolutionPlans plans, Make(target, desc, in, nhwc));
  const bool good = UseTensorCores(plans) && !Copies(plans);
  if (!nhwc || good || !MayLieInGroups(desc, in, plans.element)) return plans;
  StatusOr<CudnnConvolutionPlans> of_one = Make(target, OneGroup(desc), in.With(1, in[1] / desc.group), nhwc);
  if (!of_one.ok() || !UseTensorCores(*of_one)) return plans;
  if (UseTensorCores(plans) && of_one->workspace_bytes() >= plans.workspace_bytes()) return plans;
  of_one->groups = desc.group;
  return of_one;
}

size_t CudnnConvolutionPlans::workspace_bytes() const {
  const size_t bytes = std::max(forward.workspace_bytes(), backward_weights.workspace_bytes());
  return backward_input ? std::max(bytes, backward_input->workspace_bytes()) : bytes;
}

std::vector<std::pair<int64_t, const void*>> CudnnConvolutionPlans::PointersOf(int64_t g, const void* x,
                                                                               const void* weights, const void* bias,
                                                                               const void* y) const {
  const auto of_group = [&](const void* data, int64_t elements) -> const void* {
    return static_cast<const std::byte*>(data) + g * elements * static_cast<int64_t>(BytesOf(element));
  };
  std::vector<std::pair<int64_t, const void*>> pointers = {
      {kX, of_group(x, in.count())}, {kWeights, of_group(weights, this->weights)}, {kY, of_group(y, out.count())}};
  if (bias != nullptr) pointers.push_back({kBias, of_group(bias, out[1])});
  return pointers;
}

StatusOr<CudnnPlan> CudnnConvolutionPlans::MakeForwardWithRelu(const CudnnTarget& target, const ConvolutionDesc& desc,
                                                               const Shape& in, bool nhwc) {
  const Builder builder(desc, in, ConvolvedShape(desc, in), CudnnTypeOf(ElementOf(target.math)), nhwc);
  return CudnnPlan::Make(target, builder.ForwardWithRelu(), builder.what() + " plus ReLU");
}

StatusOr<std::unique_ptr<GpuConvolution>> MakeCudnnConvolution(Gpu* gpu, const CudnnTarget& target,
                                                               const ConvolutionDesc& desc, const Shape& in) {
  HP_ASSIGN_OR_RETURN(CudnnConvolutionPlans plans, CudnnConvolutionPlans::MakeBest(target, desc, in));
  return std::unique_ptr<GpuConvolution>(std::make_unique<CudnnConvolution>(gpu, target, desc, std::move(plans)));
}

}  // namespace hp

#include "backend/window.h"
#include "layers/errors.h"
#include "layers/factories.h"
#include "layers/window_fields.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Maximum or average over windows. `engine` chooses between implementations of the same function: accepted.
class PoolingLayer : public Layer {
 public:
  PoolingLayer(const caffe::LayerParameter& param, const PoolingDesc& desc) : Layer(param), desc_(desc) {}

  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const override {
    if (in[0].rank() != 4) {
      return LayerError(param_, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                        in[0].ToString().c_str());
    }
    const Shape out = PooledShape(desc_, in[0]);
    if (out[2] < 1 || out[3] < 1) {
      return LayerError(param_, "a kernel of %lld x %lld does not fit into bottom shape [%s] with its padding",
                        static_cast<long long>(desc_.kernel_h), static_cast<long long>(desc_.kernel_w),
                        in[0].ToString().c_str());
    }
    if (!desc_.global && (BeginsBehind(in[0][2], out[2], desc_.stride_h, desc_.pad_h) ||
                          BeginsBehind(in[0][3], out[3], desc_.stride_w, desc_.pad_w))) {
      return LayerError(param_, "the last window would begin behind bottom shape [%s]; expected a smaller stride",
                        in[0].ToString().c_str());
    }
    return std::vector<Shape>{out};
  }

  StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const override {
    return context.backend->Pooling(desc_, in);
  }

 private:
  /// Without padding Caffe's rounding can add a window of nothing, whose maximum and average it leaves undefined.
  static bool BeginsBehind(int64_t in, int64_t out, int64_t stride, int64_t pad) {
    return (out - 1) * stride - pad >= in;
  }

  const PoolingDesc desc_;
};

/// An optional field of both axes as ReadWindowField wants it.
std::span<const uint32_t> IfSet(bool is_set, const uint32_t* value) { return {value, is_set ? size_t{1} : size_t{0}}; }

Status ReadWindow(const caffe::LayerParameter& param, PoolingDesc* desc) {
  const caffe::PoolingParameter& p = param.pooling_param();
  const uint32_t kernel_size = p.kernel_size(), stride_both = p.stride(), pad_both = p.pad();
  const char* const message = "pooling_param";
  if (!p.global_pooling()) {
    HP_ASSIGN_OR_RETURN(const HeightWidth kernel,
                        ReadWindowField(param,
                                        {message, "kernel_size", "kernel", IfSet(p.has_kernel_size(), &kernel_size),
                                         p.has_kernel_h(), p.has_kernel_w(), p.kernel_h(), p.kernel_w()},
                                        -1, 1));
    desc->kernel_h = kernel.height, desc->kernel_w = kernel.width;
  } else if (p.has_kernel_size() || p.has_kernel_h() || p.has_kernel_w()) {
    return LayerError(param, "pooling_param has both global_pooling and a kernel; give one or the other");
  }
  HP_ASSIGN_OR_RETURN(const HeightWidth stride,
                      ReadWindowField(param,
                                      {message, "stride", "stride", IfSet(p.has_stride(), &stride_both),
                                       p.has_stride_h(), p.has_stride_w(), p.stride_h(), p.stride_w()},
                                      1, 1));
  HP_ASSIGN_OR_RETURN(const HeightWidth pad, ReadWindowField(param,
                                                             {message, "pad", "pad", IfSet(p.has_pad(), &pad_both),
                                                              p.has_pad_h(), p.has_pad_w(), p.pad_h(), p.pad_w()},
                                                             0, 0));
  desc->stride_h = stride.height, desc->stride_w = stride.width;
  desc->pad_h = pad.height, desc->pad_w = pad.width;
  return OkStatus();
}

}  // namespace

StatusOr<LayerPtr> MakePoolingLayer(const caffe::LayerParameter& param) {
  const caffe::PoolingParameter& pooling = param.pooling_param();
  if (pooling.pool() == caffe::PoolingParameter::STOCHASTIC) {
    return LayerError(param, "pooling_param { pool: STOCHASTIC } is not supported; expected MAX or AVE");
  }
  PoolingDesc desc;
  desc.method = pooling.pool() == caffe::PoolingParameter::AVE ? PoolingDesc::kAve : PoolingDesc::kMax;
  desc.global = pooling.global_pooling();
  desc.ceil = pooling.round_mode() == caffe::PoolingParameter::CEIL;
  HP_RETURN_IF_ERROR(ReadWindow(param, &desc));
  if (desc.global && (desc.pad_h > 0 || desc.pad_w > 0 || desc.stride_h != 1 || desc.stride_w != 1)) {
    return LayerError(param, "pooling_param { global_pooling: true } needs pad 0 and stride 1");
  }
  if (!desc.global && (desc.pad_h >= desc.kernel_h || desc.pad_w >= desc.kernel_w)) {
    return LayerError(param, "pooling_param { pad: %lld x %lld } must be less than the kernel, %lld x %lld",
                      static_cast<long long>(desc.pad_h), static_cast<long long>(desc.pad_w),
                      static_cast<long long>(desc.kernel_h), static_cast<long long>(desc.kernel_w));
  }
  return LayerPtr(std::make_unique<PoolingLayer>(param, desc));
}

}  // namespace hp

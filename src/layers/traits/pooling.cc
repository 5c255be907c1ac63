#include "base/window.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

#include <span>

namespace hp {
namespace {

/// An optional field of both axes as ReadWindowField wants it.
std::span<const uint32_t> IfSet(bool is_set, const uint32_t* value) { return {value, is_set ? size_t{1} : size_t{0}}; }

Status ReadPoolingWindow(const caffe::LayerParameter& param, PoolingFields* fields) {
  const caffe::PoolingParameter& p = param.pooling_param();
  const uint32_t kernel_size = p.kernel_size(), stride_both = p.stride(), pad_both = p.pad();
  const char* const message = "pooling_param";
  if (!p.global_pooling()) {
    HP_ASSIGN_OR_RETURN(fields->kernel,
                        ReadWindowField(param,
                                        {message, "kernel_size", "kernel", IfSet(p.has_kernel_size(), &kernel_size),
                                         p.has_kernel_h(), p.has_kernel_w(), p.kernel_h(), p.kernel_w()},
                                        -1, 1));
  } else if (p.has_kernel_size() || p.has_kernel_h() || p.has_kernel_w()) {
    return LayerError(param, "pooling_param has both global_pooling and a kernel; give one or the other");
  }
  HP_ASSIGN_OR_RETURN(fields->stride, ReadWindowField(param,
                                                      {message, "stride", "stride", IfSet(p.has_stride(), &stride_both),
                                                       p.has_stride_h(), p.has_stride_w(), p.stride_h(), p.stride_w()},
                                                      1, 1));
  HP_ASSIGN_OR_RETURN(fields->pad, ReadWindowField(param,
                                                   {message, "pad", "pad", IfSet(p.has_pad(), &pad_both), p.has_pad_h(),
                                                    p.has_pad_w(), p.pad_h(), p.pad_w()},
                                                   0, 0));
  return OkStatus();
}

}  // namespace

StatusOr<PoolingFields> ReadPooling(const caffe::LayerParameter& param) {
  const caffe::PoolingParameter& pooling = param.pooling_param();
  PoolingFields fields;
  if (pooling.pool() == caffe::PoolingParameter::AVE) fields.method = PoolingFields::kAve;
  if (pooling.pool() == caffe::PoolingParameter::STOCHASTIC) fields.method = PoolingFields::kStochastic;
  fields.global = pooling.global_pooling();
  fields.ceil = pooling.round_mode() == caffe::PoolingParameter::CEIL;
  HP_RETURN_IF_ERROR(ReadPoolingWindow(param, &fields));
  const HeightWidth &kernel = fields.kernel, &stride = fields.stride, &pad = fields.pad;
  if (fields.global && (pad.height > 0 || pad.width > 0 || stride.height != 1 || stride.width != 1)) {
    return LayerError(param, "pooling_param { global_pooling: true } needs pad 0 and stride 1");
  }
  if (!fields.global && (pad.height >= kernel.height || pad.width >= kernel.width)) {
    return LayerError(param, "pooling_param { pad: %lld x %lld } must be less than the kernel, %lld x %lld",
                      static_cast<long long>(pad.height), static_cast<long long>(pad.width),
                      static_cast<long long>(kernel.height), static_cast<long long>(kernel.width));
  }
  if (fields.method == PoolingFields::kStochastic && (pad.height > 0 || pad.width > 0)) {
    return LayerError(param, "pooling_param { pool: STOCHASTIC } has pad %lld x %lld; expected none, as in Caffe",
                      static_cast<long long>(pad.height), static_cast<long long>(pad.width));
  }
  return fields;
}

namespace {

Status CheckPooling(const caffe::LayerParameter& param) {
  if (param.top_size() > 1) {
    return LayerError(param,
                      "a second top (which of the bottom's values each maximum is) is not supported: no layer of "
                      "Caffe's reads it");
  }
  return ReadPooling(param).status();
}

/// Without padding Caffe's rounding can add a window of nothing, whose maximum and average it leaves undefined.
bool BeginsBehind(int64_t in, int64_t out, int64_t stride, int64_t pad) { return (out - 1) * stride - pad >= in; }

StatusOr<std::vector<Shape>> PoolingShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const PoolingFields fields, ReadPooling(param));
  const Shape& shape = in[0];
  if (shape.rank() != 4) {
    return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                      shape.ToString().c_str());
  }
  if (fields.global) return std::vector<Shape>{Shape{shape[0], shape[1], 1, 1}};
  const HeightWidth &kernel = fields.kernel, &stride = fields.stride, &pad = fields.pad;
  const bool padding = pad.height > 0 || pad.width > 0;
  const int64_t height = PooledSize(shape[2], kernel.height, stride.height, pad.height, fields.ceil, padding);
  const int64_t width = PooledSize(shape[3], kernel.width, stride.width, pad.width, fields.ceil, padding);
  if (height < 1 || width < 1) {
    return LayerError(param, "a kernel of %lld x %lld does not fit into bottom shape [%s] with its padding",
                      static_cast<long long>(kernel.height), static_cast<long long>(kernel.width),
                      shape.ToString().c_str());
  }
  if (BeginsBehind(shape[2], height, stride.height, pad.height) ||
      BeginsBehind(shape[3], width, stride.width, pad.width)) {
    return LayerError(param, "the last window would begin beyond bottom shape [%s]; expected a smaller stride",
                      shape.ToString().c_str());
  }
  return std::vector<Shape>{Shape{shape[0], shape[1], height, width}};
}

}  // namespace

LayerType PoolingType() {
  return {.name = "Pooling",
          .fields = {"pooling_param"},
          .tops = {1, 2},
          .check = CheckPooling,
          .output_shapes = PoolingShapes};
}

}  // namespace hp

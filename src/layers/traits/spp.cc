#include "base/window.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/pyramid.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

constexpr uint32_t kMostLevels = 12;  // 2048 x 2048 windows

Status CheckSpp(const caffe::LayerParameter& param) {
  const uint32_t height = param.spp_param().pyramid_height();
  if (height >= 1 && height <= kMostLevels) return OkStatus();
  return LayerError(param, "spp_param { pyramid_height: %u }: expected 1 to %u", height, kMostLevels);
}

/// The windows along one axis: as large as it takes for `bins` of them, and half of what is too much in front.
void Divide(int64_t size, int64_t bins, int64_t* kernel, int64_t* pad, int64_t* out) {
  *kernel = (size + bins - 1) / bins;
  *pad = (*kernel * bins - size + 1) / 2;
  *out = PooledSize(size, *kernel, *kernel, *pad, /*ceil=*/true, *pad > 0);
}

StatusOr<std::vector<Shape>> SppShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const std::vector<PyramidLevel> levels, PyramidOf(param, in[0]));
  if (levels.size() == 1) return std::vector<Shape>{Shape{in[0][0], in[0][1], 1, 1}};
  int64_t windows = 0;
  for (const PyramidLevel& level : levels) windows += level.out_h * level.out_w;
  return std::vector<Shape>{Shape{in[0][0], in[0][1] * windows}};
}

}  // namespace

// Source: Caffe, src/caffe/layers/spp_layer.cpp, SPPLayer::GetPoolingParam.
StatusOr<std::vector<PyramidLevel>> PyramidOf(const caffe::LayerParameter& param, const Shape& in) {
  if (in.rank() != 4) {
    return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, height, width]",
                      in.ToString().c_str());
  }
  std::vector<PyramidLevel> levels(param.spp_param().pyramid_height());
  for (size_t i = 0; i < levels.size(); ++i) {
    PyramidLevel& level = levels[i];
    const int64_t bins = int64_t{1} << i;
    Divide(in[2], bins, &level.kernel_h, &level.pad_h, &level.out_h);
    Divide(in[3], bins, &level.kernel_w, &level.pad_w, &level.out_w);
    const bool padded = level.pad_h > 0 || level.pad_w > 0;
    if (level.pad_h >= level.kernel_h || level.pad_w >= level.kernel_w) {
      return LayerError(
          param, "spp_param { pyramid_height: %zu }: bottom shape [%s] is too small for %lld x %lld windows",
          levels.size(), in.ToString().c_str(), static_cast<long long>(bins), static_cast<long long>(bins));
    }
    if (padded && param.spp_param().pool() == caffe::SPPParameter::STOCHASTIC) {
      return LayerError(param,
                        "spp_param { pool: STOCHASTIC } needs a pad for %lld x %lld windows of bottom shape [%s]; "
                        "expected one that they divide, as in Caffe",
                        static_cast<long long>(bins), static_cast<long long>(bins), in.ToString().c_str());
    }
  }
  return levels;
}

LayerType SppType() { return {.name = "SPP", .fields = {"spp_param"}, .check = CheckSpp, .output_shapes = SppShapes}; }

}  // namespace hp

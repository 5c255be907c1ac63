// Layers that copy elements to other places: Slice, Crop, Tile.
#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/reshaped_axes.h"
#include "proto/caffe.pb.h"

#include <numeric>
#include <string>

namespace hp {
namespace {

/// The axis counted from 0, which is not that of the rows.
StatusOr<int> AxisOf(const caffe::LayerParameter& param, const char* message, int axis, const Shape& in) {
  const int canonical = in.CanonicalAxis(axis);
  if (canonical >= 1 && canonical < in.rank()) return canonical;
  return AxisError(param, (std::string(message) + " { axis").c_str(), axis, in);
}

Status CheckSlice(const caffe::LayerParameter& param) {
  const caffe::SliceParameter& slice = param.slice_param();
  if (slice.has_axis() && slice.has_slice_dim()) {
    return LayerError(param, "slice_param has both axis and slice_dim; give one");
  }
  if (slice.slice_dim() > static_cast<uint32_t>(kMostAxes)) {
    return LayerError(param, "slice_param { slice_dim: %u }: expected an axis, 1 or more", slice.slice_dim());
  }
  if (slice.slice_point_size() > 0 && slice.slice_point_size() != param.top_size() - 1) {
    return LayerError(param, "has %d slice_point values for %d tops; expected %d", slice.slice_point_size(),
                      param.top_size(), param.top_size() - 1);
  }
  uint32_t before = 0;
  for (const uint32_t point : slice.slice_point()) {
    if (point <= before) {
      return LayerError(param, "slice_point %u behind %u; expected each to be greater than the one before, and than 0",
                        point, before);
    }
    before = point;
  }
  return OkStatus();
}

StatusOr<std::vector<Shape>> SliceShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const SlicedAxis sliced, SlicedAxisOf(param, in[0]));
  std::vector<Shape> out;
  for (const int64_t size : sliced.sizes) out.push_back(in[0].With(sliced.axis, size));
  return out;
}

std::vector<int64_t> SlicedElements(const caffe::LayerParameter& param, const Shape& in, int top) {
  const SlicedAxis sliced = *SlicedAxisOf(param, in);
  const auto from = sliced.sizes.begin();
  const int64_t begin = std::accumulate(from, from + top, int64_t{0}), end = begin + sliced.sizes[top];
  int64_t behind = 1;
  for (int axis = sliced.axis + 1; axis < in.rank(); ++axis) behind *= in[axis];
  std::vector<int64_t> elements;
  for (int64_t element = 0; element < in.count(); ++element) {
    const int64_t at = element / behind % in[sliced.axis];
    if (at >= begin && at < end) elements.push_back(element);
  }
  return elements;
}

StatusOr<std::vector<Shape>> CropShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(CropOffsets(param, in).status());
  Shape out = in[0];
  for (int axis = in[0].CanonicalAxis(param.crop_param().axis()); axis < out.rank(); ++axis) {
    out = out.With(axis, in[1][axis]);
  }
  return std::vector<Shape>{out};
}

Status CheckTile(const caffe::LayerParameter& param) {
  if (param.tile_param().tiles() >= 1) return OkStatus();
  return LayerError(param, "tile_param { tiles: %d }: expected 1 or more", param.tile_param().tiles());
}

StatusOr<std::vector<Shape>> TileShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(const int axis, TiledAxis(param, in[0]));
  return std::vector<Shape>{in[0].With(axis, in[0][axis] * param.tile_param().tiles())};
}

}  // namespace

StatusOr<SlicedAxis> SlicedAxisOf(const caffe::LayerParameter& param, const Shape& in) {
  const caffe::SliceParameter& slice = param.slice_param();
  SlicedAxis sliced;
  const int given = slice.has_slice_dim() ? static_cast<int>(slice.slice_dim()) : slice.axis();
  HP_ASSIGN_OR_RETURN(sliced.axis, AxisOf(param, "slice_param", given, in));
  const int64_t whole = in[sliced.axis], tops = param.top_size();
  if (slice.slice_point_size() == 0) {
    if (whole % tops != 0) {
      return LayerError(param,
                        "axis %d of bottom shape [%s] is not divisible by %lld tops; expected slice_point values",
                        sliced.axis, in.ToString().c_str(), static_cast<long long>(tops));
    }
    sliced.sizes.assign(tops, whole / tops);
    return sliced;
  }
  int64_t begin = 0;
  for (const uint32_t point : slice.slice_point()) sliced.sizes.push_back(point - begin), begin = point;
  if (begin >= whole) {
    return LayerError(param, "slice_point %lld leaves nothing of axis %d of bottom shape [%s] for the last top",
                      static_cast<long long>(begin), sliced.axis, in.ToString().c_str());
  }
  sliced.sizes.push_back(whole - begin);
  return sliced;
}

StatusOr<std::vector<int64_t>> CropOffsets(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const caffe::CropParameter& crop = param.crop_param();
  HP_ASSIGN_OR_RETURN(const int axis, AxisOf(param, "crop_param", crop.axis(), in[0]));
  if (in[0].rank() > kMostAxes || in[1].rank() != in[0].rank()) {
    return LayerError(param, "bottoms have shapes [%s] and [%s]; expected equally many axes, at most %d",
                      in[0].ToString().c_str(), in[1].ToString().c_str(), kMostAxes);
  }
  const int cropped = in[0].rank() - axis;
  if (crop.offset_size() > 1 && crop.offset_size() != cropped) {
    return LayerError(param, "has %d offset values; expected one for each of the %d axes from %d on, or one for all",
                      crop.offset_size(), cropped, axis);
  }
  std::vector<int64_t> offsets(in[0].rank());
  for (int a = axis; a < in[0].rank(); ++a) {
    if (crop.offset_size() > 0) offsets[a] = crop.offset(crop.offset_size() > 1 ? a - axis : 0);
    if (in[1][a] + offsets[a] <= in[0][a]) continue;
    return LayerError(param, "offset %lld and size %lld of axis %d, that of bottom 1, go beyond bottom shape [%s]",
                      static_cast<long long>(offsets[a]), static_cast<long long>(in[1][a]), a,
                      in[0].ToString().c_str());
  }
  return offsets;
}

StatusOr<int> TiledAxis(const caffe::LayerParameter& param, const Shape& in) {
  return AxisOf(param, "tile_param", param.tile_param().axis(), in);
}

LayerType CropType() {
  return {.name = "Crop", .fields = {"crop_param"}, .bottoms = {2, 2}, .output_shapes = CropShapes};
}

LayerType SliceType() {
  return {.name = "Slice",
          .fields = {"slice_param"},
          .tops = {1, kAnyNumber},
          .check = CheckSlice,
          .output_shapes = SliceShapes,
          .elements = SlicedElements};
}

LayerType TileType() {
  return {.name = "Tile", .fields = {"tile_param"}, .check = CheckTile, .output_shapes = TileShapes};
}

}  // namespace hp

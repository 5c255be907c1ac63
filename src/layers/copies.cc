// Layers that copy elements to other places.
#include "layers/built_in_ops.h"
#include "layers/traits/reshaped_axes.h"
#include "proto/caffe.pb.h"

namespace hp {

/// The part of bottom 0 that has bottom 1's shape; of bottom 1 nothing else counts.
StatusOr<LayerOp> MakeCropOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const std::vector<Shape> shapes = {in[0].shape, in[1].shape};
  HP_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, CropOffsets(layer.param(), shapes));
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, layer.OutputShapes(shapes));
  return context.backend->Crop(offsets, out[0], in);
}

/// The bottom cut along one axis.
StatusOr<LayerOp> MakeSliceOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const SlicedAxis sliced, SlicedAxisOf(layer.param(), in[0].shape));
  return context.backend->Slice(sliced.axis, sliced.sizes, in);
}

/// The bottom several times along one axis.
StatusOr<LayerOp> MakeTileOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const int axis, TiledAxis(layer.param(), in[0].shape));
  return context.backend->Tile(axis, layer.param().tile_param().tiles(), in);
}

}  // namespace hp

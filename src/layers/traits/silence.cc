// Silence, and HDF5Output: layers that nothing follows from in a net. An evaluation writes the files of the latter
// (commands/output_files.h).
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

StatusOr<std::vector<Shape>> NoShapes(const caffe::LayerParameter&, const std::vector<Shape>&) {
  return std::vector<Shape>();
}

Status CheckHdf5Output(const caffe::LayerParameter& param) {
  if (!param.hdf5_output_param().file_name().empty()) return OkStatus();
  return LayerError(param, "hdf5_output_param has no file_name");
}

}  // namespace

LayerType Hdf5OutputType() {
  return {.name = "HDF5Output",
          .fields = {"hdf5_output_param"},
          .bottoms = {2, 2},
          .tops = {0, 0},
          .discards = true,
          .check = CheckHdf5Output,
          .output_shapes = NoShapes};
}

LayerType SilenceType() {
  return {.name = "Silence", .bottoms = {1, kAnyNumber}, .tops = {0, 0}, .discards = true, .output_shapes = NoShapes};
}

}  // namespace hp

#include "base/format.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

#include <string>

namespace hp {
namespace {

Status CheckReshape(const caffe::LayerParameter& param) {
  const caffe::ReshapeParameter& reshape = param.reshape_param();
  if (reshape.num_axes() < -1) {
    return LayerError(param, "reshape_param { num_axes: %d }: expected -1 (all from axis on) or more",
                      reshape.num_axes());
  }
  int inferred = 0;
  for (const int64_t dim : reshape.shape().dim()) {
    if (dim < -1 || dim > Shape::kMaxDim) {
      return LayerError(param, "reshape_param { shape { dim: %lld } }: expected a size, 0 (that of the bottom) or -1",
                        static_cast<long long>(dim));
    }
    inferred += dim == -1;
  }
  if (inferred <= 1) return OkStatus();
  return LayerError(param, "reshape_param { shape } has %d dims of -1; expected at most one", inferred);
}

/// The axes of the bottom, [begin, end), that dims take the place of.
struct ReplacedAxes {
  int begin = 0, end = 0;
};

StatusOr<ReplacedAxes> AxesOf(const caffe::LayerParameter& param, const Shape& in) {
  const caffe::ReshapeParameter& reshape = param.reshape_param();
  ReplacedAxes axes;
  axes.begin = reshape.axis() >= 0 ? reshape.axis() : in.rank() + reshape.axis() + 1;
  axes.end = reshape.num_axes() == -1 ? in.rank() : axes.begin + reshape.num_axes();
  if (axes.begin >= 0 && axes.begin <= axes.end && axes.end <= in.rank()) return axes;
  return LayerError(param, "reshape_param { axis: %d num_axes: %d } does not fit bottom shape [%s]", reshape.axis(),
                    reshape.num_axes(), in.ToString().c_str());
}

Status BatchAxisError(const caffe::LayerParameter& param, const std::string& what) {
  return LayerError(
      param,
      "%s, but axis 0 is the batch, of which each node has a part; expected it as it is: a first dim of 0, "
      "or axis: 1",
      what.c_str());
}

/// A literal first dim would be the rows of one micro-batch, which a table decides. It is refused before anything is
/// computed from it, since the bottom has fewer rows here than in the prototxt.
Status CheckFirstDim(const caffe::LayerParameter& param, const ReplacedAxes& axes) {
  const caffe::BlobShape& given = param.reshape_param().shape();
  if (axes.begin > 0 || (given.dim_size() == 0 && axes.end == 0)) return OkStatus();
  if (given.dim_size() == 0) return BatchAxisError(param, "reshape_param takes axis 0 away");
  if (given.dim(0) <= 0) return OkStatus();
  return BatchAxisError(
      param, Format("reshape_param { shape { dim: %lld } } would be axis 0", static_cast<long long>(given.dim(0))));
}

Status CheckBatchAxis(const caffe::LayerParameter& param, const Shape& in, const Shape& out) {
  if (out.rank() > 0 && in.rank() > 0 && out[0] == in[0]) return OkStatus();
  return BatchAxisError(param, Format("reshape_param would make [%s] of bottom shape [%s]", out.ToString().c_str(),
                                      in.ToString().c_str()));
}

StatusOr<std::vector<Shape>> ReshapeShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const Shape& shape = in[0];
  HP_ASSIGN_OR_RETURN(const ReplacedAxes axes, AxesOf(param, shape));
  HP_RETURN_IF_ERROR(CheckFirstDim(param, axes));
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + axes.begin);
  int inferred = -1;
  const caffe::BlobShape& given = param.reshape_param().shape();
  for (int i = 0; i < given.dim_size(); ++i) {
    if (given.dim(i) == 0 && axes.begin + i >= shape.rank()) {
      return LayerError(param, "dim %d of reshape_param is 0, but bottom shape [%s] has no axis %d", i,
                        shape.ToString().c_str(), axes.begin + i);
    }
    if (given.dim(i) == -1) inferred = static_cast<int>(dims.size());
    dims.push_back(given.dim(i) == 0 ? shape[axes.begin + i] : given.dim(i) == -1 ? 1 : given.dim(i));
  }
  dims.insert(dims.end(), shape.dims().begin() + axes.end, shape.dims().end());
  if (!Shape(dims).InBounds()) {
    return LayerError(param, "reshape_param would make [%s], which is too large", Shape(dims).ToString().c_str());
  }
  const int64_t rest = Shape(dims).count();
  if (inferred >= 0 && rest > 0) dims[inferred] = shape.count() / rest;
  const Shape out(dims);
  if (out.count() != shape.count()) {
    return LayerError(param, "reshape_param would make [%s], of %lld elements, of bottom shape [%s], which has %lld",
                      out.ToString().c_str(), static_cast<long long>(out.count()), shape.ToString().c_str(),
                      static_cast<long long>(shape.count()));
  }
  HP_RETURN_IF_ERROR(CheckBatchAxis(param, shape, out));
  return std::vector<Shape>{out};
}

}  // namespace

LayerType ReshapeType() {
  return {.name = "Reshape",
          .fields = {"reshape_param"},
          .view = true,
          .check = CheckReshape,
          .output_shapes = ReshapeShapes,
          .elements = AllElements};
}

}  // namespace hp

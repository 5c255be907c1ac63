// Layers that compute numbers of a row or of a part of it: Reduction, ArgMax, MVN.
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/ranked_axis.h"
#include "proto/caffe.pb.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

Status CheckReduction(const caffe::LayerParameter& param) {
  const float coeff = param.reduction_param().coeff();
  if (std::isfinite(coeff)) return OkStatus();
  return LayerError(param, "reduction_param { coeff: %g }: expected a finite number", coeff);
}

/// A sum over a batch is no tensor with a row for each sample, and no node has all of the rows.
bool SumsOverBatch(const caffe::LayerParameter& param) { return param.reduction_param().axis() == 0; }

StatusOr<std::vector<Shape>> ReductionShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (SumsOverBatch(param)) return std::vector<Shape>{{1}};
  const int given = param.reduction_param().axis(), axis = in[0].CanonicalAxis(given);
  if (axis == 0) {
    return LayerError(param, "reduction_param { axis: %d } is axis 0 of bottom shape [%s]; expected axis: 0", given,
                      in[0].ToString().c_str());
  }
  if (axis < 1 || axis >= in[0].rank()) {
    return LayerError(param, "reduction_param { axis: %d } does not fit bottom shape [%s]; expected 0 to %d", given,
                      in[0].ToString().c_str(), in[0].rank() - 1);
  }
  return std::vector<Shape>{Shape(std::vector<int64_t>(in[0].dims().begin(), in[0].dims().begin() + axis))};
}

Status CheckArgMax(const caffe::LayerParameter& param) {
  if (param.argmax_param().top_k() >= 1) return OkStatus();
  return LayerError(param, "argmax_param { top_k: 0 }: expected 1 or more");
}

StatusOr<std::vector<Shape>> ArgMaxShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(RankedAxisOf(param, in[0]).status());
  const caffe::ArgMaxParameter& argmax = param.argmax_param();
  if (argmax.has_axis()) return std::vector<Shape>{in[0].With(in[0].CanonicalAxis(argmax.axis()), argmax.top_k())};
  std::vector<int64_t> dims(std::max(in[0].rank(), 3), 1);
  dims[0] = in[0][0];
  dims[1] = argmax.out_max_val() ? 2 : 1;
  dims[2] = argmax.top_k();
  return std::vector<Shape>{Shape(dims)};
}

Status CheckMvn(const caffe::LayerParameter& param) {
  const float eps = param.mvn_param().eps();
  if (eps >= 0 && std::isfinite(eps)) return OkStatus();
  return LayerError(param, "mvn_param { eps: %g }: expected a finite number of at least 0", eps);
}

StatusOr<std::vector<Shape>> MvnShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() >= 2) return in;
  return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, ...]", in[0].ToString().c_str());
}

}  // namespace

StatusOr<RankedAxis> RankedAxisOf(const caffe::LayerParameter& param, const Shape& in) {
  const caffe::ArgMaxParameter& argmax = param.argmax_param();
  RankedAxis ranked;
  if (argmax.has_axis()) {
    const int axis = in.CanonicalAxis(argmax.axis());
    if (axis < 1 || axis >= in.rank()) {
      return AxisError(param, "argmax_param { axis", argmax.axis(), in);
    }
    ranked = {in[axis], in.count(axis + 1)};
  } else {
    if (in.rank() < 1) return LayerError(param, "bottom shape [] does not fit; expected [rows, ...]");
    ranked = {in.count(1), 1};
  }
  if (argmax.top_k() <= ranked.width) return ranked;
  return LayerError(param, "argmax_param { top_k: %u } is more than the %lld elements to choose from in [%s]",
                    argmax.top_k(), static_cast<long long>(ranked.width), in.ToString().c_str());
}

LayerType ArgMaxType() {
  return {.name = "ArgMax",
          .fields = {"argmax_param"},
          .has_gradient = false,
          .check = CheckArgMax,
          .output_shapes = ArgMaxShapes};
}

LayerType MvnType() {
  return {.name = "MVN", .fields = {"mvn_param"}, .in_place = true, .check = CheckMvn, .output_shapes = MvnShapes};
}

LayerType ReductionType() {
  return {.name = "Reduction",
          .fields = {"reduction_param"},
          .sums_batch = SumsOverBatch,
          .check = CheckReduction,
          .output_shapes = ReductionShapes};
}

}  // namespace hp

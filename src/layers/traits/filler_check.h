#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <string>

namespace caffe {
class FillerParameter;
}  // namespace caffe

namespace hp {

/// Checks that FillParam (layers/filler.h) can fill a blob of shape `whole` with `filler`: Caffe's types constant,
/// uniform, gaussian (with `sparse` too), positive_unitball, xavier, msra, and bilinear for square kernels. Logs a
/// warning for each field that has no meaning for its type.
/// @param where names the layer and field in messages, e.g. `layer "conv1": weight_filler`.
/// @return kInvalidArgument: an unknown type, values out of range, or a shape that the type does not fit.
Status CheckFiller(const caffe::FillerParameter& filler, const Shape& whole, const std::string& where);

/// The part of CheckFiller that needs no shape: the type, and values that are wrong for any blob. Logs nothing.
Status CheckFillerFields(const caffe::FillerParameter& filler, const std::string& where);

}  // namespace hp

#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <string>

namespace caffe {
class FillerParameter;
}  // namespace caffe

namespace hp {

/// Checks that FillParam (layers/filler.h) can fill a blob of shape `whole` with `filler`: types constant, uniform,
/// gaussian (with `sparse` too), xavier, msra. Logs a warning for each field that has no meaning for its type.
/// @param where names the layer and field in messages, e.g. `layer "conv1": weight_filler`.
/// @return kInvalidArgument: another type of Caffe's (named as not supported yet), an unknown one, or values out of
/// range.
Status CheckFiller(const caffe::FillerParameter& filler, const Shape& whole, const std::string& where);

/// The part of CheckFiller that needs no shape: the type, and values that are wrong for any blob. Logs nothing.
Status CheckFillerFields(const caffe::FillerParameter& filler, const std::string& where);

}  // namespace hp

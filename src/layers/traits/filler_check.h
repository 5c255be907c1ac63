#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <string>

namespace caffe {
class FillerParameter;
}  // namespace caffe

namespace hp {

/// Whether `filler` can fill a blob of shape `whole`: constant, uniform, gaussian (sparse too), xavier, msra. Warns of
/// fields that have no meaning for its type.
/// @param where names the layer and field in messages, e.g. `layer "conv1": weight_filler`.
/// @return kInvalidArgument: another type of Caffe's (named as not supported yet), an unknown one, or values out of
/// range.
Status CheckFiller(const caffe::FillerParameter& filler, const Shape& whole, const std::string& where);

}  // namespace hp

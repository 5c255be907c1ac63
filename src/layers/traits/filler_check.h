#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <string>
#include <vector>

namespace caffe {
class FillerParameter;
}  // namespace caffe

namespace hp {

/// Checks that FillParam (layers/filler.h) can fill a blob of shape `whole` with `filler`: Caffe's types constant,
/// uniform, gaussian (with `sparse` too), positive_unitball, xavier, msra, and bilinear for square kernels.
/// @param where names the layer and field in messages, e.g. `layer "conv1": weight_filler`.
/// @return kInvalidArgument: an unknown type, values out of range, or a shape that the type does not fit.
Status CheckFiller(const caffe::FillerParameter& filler, const Shape& whole, const std::string& where);

/// The part of CheckFiller that needs no shape: the type, and values that are wrong for any blob.
Status CheckFillerFields(const caffe::FillerParameter& filler, const std::string& where);

/// Fields that say nothing to a filler's type. Caffe's model zoo is full of `type: "xavier" std: 0.1`.
std::vector<std::string> FieldsWithoutMeaning(const caffe::FillerParameter& filler);

}  // namespace hp

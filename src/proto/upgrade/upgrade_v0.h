#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/upgrade/upgrade.h"

#include <vector>

namespace hp {

/// Whether some of the net's `layers` is of the form of 2013: its fields are in a `layer` inside.
bool HasV0Layers(const caffe::NetParameter& net);

/// Makes the net's V0 `layers` V1 ones, and folds padding layers into their readers.
/// @param place_of as UpgradeNet's. @param origins one for each of the net's `layers`, before and after.
/// @return kInvalidArgument: an unknown type, a field that its type has not, or a padding layer that no convolution or
/// pooling can take over.
Status UpgradeV0(caffe::NetParameter* net, const PlaceOfOrigin& place_of, std::vector<NetUpgrade::Origin>* origins);

}  // namespace hp

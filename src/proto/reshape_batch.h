#pragma once

#include "proto/caffe.pb.h"

namespace hp {

/// Makes a Reshape that says the batch as a number, which all sources of the net have, say "as it is" (dim: 0): of a
/// net that runs here they are the same, since no layer changes the axis of samples.
void KeepBatchOfReshapes(caffe::NetParameter* net);

}  // namespace hp

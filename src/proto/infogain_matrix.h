#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Puts the matrix of each InfogainLoss, of which the net names the file (`source`), into the net itself
/// (`infogain_loss_param { matrix }`), and `source` out of it: nodes that compare hashes of their nets compare the
/// numbers, wherever their files are. A matrix becomes [classes, classes] of `data`, whatever shape and type it has.
/// Blocks for the disk.
/// @return kNotFound, kInvalidArgument: no such file, or none of a matrix of finite numbers; names the layer.
Status ReadInfogainMatrices(caffe::NetParameter* net);

}  // namespace hp

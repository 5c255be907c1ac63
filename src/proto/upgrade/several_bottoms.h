#pragma once

#include "proto/caffe.pb.h"
#include "proto/upgrade/upgrade.h"

namespace hp {

/// A Convolution or Deconvolution of several bottoms does the same to each and has a top for each: makes it a layer for
/// each of them, which share all blobs by name (`param { name }`). The first keeps the layer's name, and so its blobs
/// in files are Caffe's; the others are called NAME(BOTTOM). One whose tops are not as many stays as it is.
void SplitSeveralBottoms(caffe::NetParameter* net, NetUpgrade* upgrade);

}  // namespace hp

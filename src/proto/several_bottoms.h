#pragma once

#include "proto/caffe.pb.h"

#include <string>
#include <vector>

namespace hp {

/// Whether SplitSeveralBottoms takes layers of a type apart.
bool TakesSeveralBottoms(const std::string& type);

/// A Convolution or Deconvolution of several bottoms does the same to each and has a top for each: makes it as many
/// layers, which share all blobs by name (`param { name }`). The first keeps the layer's name, and so its blobs in
/// files are Caffe's; the others are called "NAME(2)" and so on. A layer with another number of tops is left alone.
/// Layers have names of their own already (NameLayersApart), and need that again.
/// @return what it did, in words, for each such layer.
std::vector<std::string> SplitSeveralBottoms(caffe::NetParameter* net);

}  // namespace hp

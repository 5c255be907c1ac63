#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

struct ConvertWeightsOptions {
  std::string net;        ///< the prototxt whose layers the weights are for
  std::string names;      ///< a file of names (weight_names.h); empty: tensors are named by layer, "conv1.weight"
  std::string sample;     ///< SampleShapeOfNet's `said`
  std::string cache_dir;  ///< DatasetOptions::cache_dir
};

/// Writes the weights of a safetensors file as a .caffemodel (or .caffemodel.h5), or the other way round; which way,
/// the ends of the two paths say. Shapes are the net's. A module of which `from` has no tensor at all is left out. Any
/// thread; blocks.
///
/// PyTorch's weights of convolutions and fully connected layers are laid out as Caffe's. Of a BatchNorm, Caffe's file
/// has sums and their weight: running_mean times the third blob. That is the power of two next to 1 / (1 -
/// moving_average_fraction), where a training ends up, so that the statistics keep their bits, and their share when the
/// training goes on.
/// @return what was done, for a log line; kNotFound: no such file, or a part of a module is missing; kInvalidArgument:
/// a fault of net or names, or other files than these; kDataLoss: a damaged file, or a value that is not finite;
/// kFailedPrecondition: a shape is not the net's. Messages name file, tensor, layer and blob.
StatusOr<std::string> ConvertWeights(const std::string& from, const std::string& to,
                                     const ConvertWeightsOptions& options);

}  // namespace hp

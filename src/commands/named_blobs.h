#pragma once

#include "base/shape.h"
#include "checkpoint/weights.h"
#include "commands/weight_names.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// The parameter blobs of a net, with their shapes.
using BlobShapes = std::map<BlobKey, Shape>;

/// A tensor and the blob that has its values.
struct NamedBlob {
  std::string tensor;
  BlobKey blob;
  std::optional<BlobKey> divisor = {};              ///< the blob holds the tensor times this one's only value
  std::optional<std::array<float, 3>> colors = {};  ///< WeightNames::Colors::std of the layer
};

/// The blobs of one line of names, which a file has together or not at all.
struct NamedGroup {
  std::string at;      ///< of the line, for messages
  std::string module;  ///< its name, or the tensor's
  std::vector<NamedBlob> blobs;
};

/// The blobs of all lines. Without names (their path is empty), those of all layers, named by the layer.
/// @param net,shapes of the net, in one phase.
/// @return kInvalidArgument: a layer that the net has not, or without parameters; blobs that have no name of PyTorch's;
/// one blob or tensor named twice; layers of which a part has no name. Names file and line.
StatusOr<std::vector<NamedGroup>> NameBlobs(const WeightNames& names, const caffe::NetParameter& net,
                                            const BlobShapes& shapes);

}  // namespace hp

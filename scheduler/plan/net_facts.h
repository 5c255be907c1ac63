#pragma once

#include "proto/caffe.pb.h"

#include <cstdint>
#include <string>

namespace hp {

// What a table has to know of a net, from the prototxt alone.

/// Whether layers of this type yield tensors from outside the net.
bool IsSource(const std::string& type);
/// Whether they have parameters that are learned or kept.
bool HasParameters(const std::string& type);
/// Whether their second bottom is the labels.
bool ReadsLabels(const std::string& type);

struct BatchSize {
  int64_t samples = -1;  ///< -1: the phase has no data layer and no Input
  std::string layer;     ///< that says so
};
/// batch_size of the phase's first data layer; rows of its first Input, if it has none.
BatchSize BatchSizeOf(const caffe::NetParameter& net, caffe::Phase phase);

}  // namespace hp

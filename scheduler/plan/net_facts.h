#pragma once

#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <string>

namespace hp {

struct BatchSize {
  int64_t samples = -1;  ///< -1: the phase has no data layer and no Input
  std::string layer;     ///< that says so
};
/// batch_size of the phase's first data layer; rows of its first Input, if it has none. From the prototxt as it is,
/// before it is known to be valid.
BatchSize BatchSizeOf(const caffe::NetParameter& net, caffe::Phase phase,
                      const LayerTypes& types = LayerTypes::BuiltIn());

}  // namespace hp

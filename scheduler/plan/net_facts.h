#pragma once

#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <cstdint>
#include <string>

namespace hp {

/// The batch size that a prototxt states for one phase.
struct BatchSize {
  int64_t samples = -1;  ///< as written, even if 0; -1: the phase has no data layer and no Input
  std::string layer;     ///< name of the layer that states it, for messages
};
/// The batch_size of the phase's first data layer, or the rows of its first Input if it has no data layer. Reads the
/// prototxt without checking it, so that the table's checks can use it before the net is known to be valid.
BatchSize BatchSizeOf(const caffe::NetParameter& net, Phase phase, const LayerTypes& types = LayerTypes::BuiltIn());

/// Whether what a training computes depends on which rows are in a micro-batch together (BatchNorm). Then more
/// micro-batches are another computation, and none are chosen for the sake of speed.
bool UsesBatchStatistics(const caffe::NetParameter& net, const LayerTypes& types = LayerTypes::BuiltIn());

}  // namespace hp

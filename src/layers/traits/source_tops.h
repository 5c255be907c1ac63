#pragma once

#include "hp/status.h"
#include "layers/traits/layer_types.h"
#include "proto/phase.h"

#include <vector>

namespace caffe {
class NetParameter;
}

namespace hp {

/// One top of a source (Data, HDF5Data, Input, ...) of a phase, and what becomes of it.
struct SourceTop {
  enum Role {
    kData,    ///< the first that is not the labels: an ordinary blob
    kLabels,  ///< goes ahead of the micro-batches, to all layers that take it as labels
    kOther,   ///< an ordinary blob as well
  };
  int layer = 0;  ///< index in the net
  int top = 0;
  Role role = kData;
  int other = -1;               ///< kOther: index in SampleShape::others
  bool goes_ahead = false;      ///< layers take it for classes or count it (LabelPathsOf); it is told ahead
  bool read_as_values = false;  ///< kLabels: some layer does not take them as labels
};

/// The tops of all sources of a phase, in their order; a SampleShape tells their shapes. At most one is the labels: of
/// those that a layer reads as labels the first, but before it one of which a layer must know how many count in a whole
/// batch, and before that one whose classes are among a sample; if there is none, the second top of the first layer
/// that reads records, if no layer reads it or each row has one number there (LayerType::single_labels). A layer that
/// reads another's labels gets them as an ordinary blob (GraphLayer::tensor_labels).
/// @param net unfiltered, checked or not.
std::vector<SourceTop> SourceTopsOf(const caffe::NetParameter& net, Phase phase, const LayerTypes& types);

/// Checks that the sources of a phase fit together.
/// @return kInvalidArgument, naming both layers: one reads records and the other is an Input, or they say different
/// batch sizes.
Status CheckSources(const caffe::NetParameter& net, Phase phase, const LayerTypes& types);

}  // namespace hp

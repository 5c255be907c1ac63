#pragma once

#include "hp/status.h"
#include "net/plan/graph.h"

#include <memory>
#include <vector>

namespace hp {

/// Whether the nets of all phases are sound as far as that shows without the shape of a sample: their layers, how these
/// are connected, that layers of a test net with parameters are layers of the training net as well, and that all
/// numbers are finite.
/// @param net the whole prototxt. @param tests how many the solver has.
/// @return kInvalidArgument, naming the layer and its place: as NetGraph::Create and CheckTestParams, or a number is
/// not finite.
Status CheckPhases(const std::shared_ptr<const caffe::NetParameter>& net, int tests, const LayerTypes& types);

/// Whether all parameters of one of a job's test nets are the training net's: nothing else gives them values. Layers of
/// one name have equally many: a test without the trained bias would be of another model. Caffe:
/// Net::ShareTrainedLayersWith.
/// @param train_shapes,test_shapes of the blobs of each graph (NetGraph::Shapes).
/// @return kInvalidArgument, naming the layer: the training net has none of its name, or one of other shapes or of
/// another number of blobs.
Status CheckTestParams(const NetGraph& train, const std::vector<Shape>& train_shapes, const NetGraph& test,
                       const std::vector<Shape>& test_shapes);

}  // namespace hp

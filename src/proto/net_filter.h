#pragma once

#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <string>
#include <vector>

namespace hp {

// Which layers belong to a phase, by the rules of Caffe's Net::FilterNet.

/// Whether `layer` is part of a net in `state`. A layer without rules is; one with include rules is if any of them
/// holds; one with exclude rules is not if any of them holds. A rule holds if phase, level and stages all meet it.
bool LayerIsIn(const caffe::LayerParameter& layer, const caffe::NetState& state);

/// The same for level 0 and no stages, which is the state of a net that does not give one.
bool IncludedInPhase(const caffe::LayerParameter& layer, caffe::Phase phase);

/// The state of a net in a phase: its own level and stages, with TRAIN or TEST. Tests behind the first one have a stage
/// of their own (StageOfTest), by which nets that ReadSolver has put together tell their layers apart.
caffe::NetState StateOf(const caffe::NetParameter& net, Phase phase);

/// The name of the stage of test `index`, which is above 0.
std::string StageOfTest(int index);

/// The indices in net.layer() of the layers of `phase`, ascending.
std::vector<int> LayersOf(const caffe::NetParameter& net, Phase phase);

/// A copy of the net with only the layers of `phase`, in their order; its `state` is StateOf(net, phase).
caffe::NetParameter FilterNet(const caffe::NetParameter& net, Phase phase);

/// Training, the first test, and of the others those that some layer of the net tells apart from it: together they have
/// all that any phase has. Ascending.
std::vector<Phase> DistinctPhases(const caffe::NetParameter& net);

}  // namespace hp

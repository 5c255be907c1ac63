#pragma once

#include "proto/caffe.pb.h"

#include <vector>

namespace hp {

/// Whether `layer` is in a net of this state, by its include and exclude rules: Caffe's Net::FilterNet. A layer without
/// rules is in; one with includes is in if any of them holds; one with excludes is out if any of them holds.
bool LayerIsIn(const caffe::LayerParameter& layer, const caffe::NetState& state);

/// The same for a net that states no level or stages of its own.
bool IncludedInPhase(const caffe::LayerParameter& layer, caffe::Phase phase);

/// The state of a phase: the net's own level and stages, with `phase`.
caffe::NetState StateOf(const caffe::NetParameter& net, caffe::Phase phase);

/// The indices, in order, of the layers that `phase` has.
std::vector<int> LayersOf(const caffe::NetParameter& net, caffe::Phase phase);

/// The net with only the layers of `phase`, in their order; `state` says the phase.
caffe::NetParameter FilterNet(const caffe::NetParameter& net, caffe::Phase phase);

}  // namespace hp

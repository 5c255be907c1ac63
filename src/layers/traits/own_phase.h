#pragma once

#include "hp/status.h"

#include <optional>

namespace caffe {
class LayerParameter;
}  // namespace caffe

namespace hp {

/// The phase that a layer computes in by its own `phase` field: true TRAIN, false TEST, whatever net it is in; not set:
/// that of its net. Which nets it is in is said by `include` and `exclude` alone. Caffe: LayerParameter.phase.
std::optional<bool> OwnPhase(const caffe::LayerParameter& param);

/// Whether a layer computes otherwise by its own phase than by the other one.
bool OwnPhaseMatters(const caffe::LayerParameter& param);

/// Checks the phase of a layer with stochastic pooling.
/// @return kInvalidArgument: it says TEST and is in the training: no value is drawn there that a gradient could go to.
Status CheckPhaseOfDrawing(const caffe::LayerParameter& param);

}  // namespace hp

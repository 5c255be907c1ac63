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

/// Whether a layer of the training can be trained through by its own phase.
/// @return kInvalidArgument: a stochastic pooling that says TEST: no value is drawn that a gradient could go to; a
/// dropout of all values, which a test may have.
Status CheckTrains(const caffe::LayerParameter& param);

}  // namespace hp

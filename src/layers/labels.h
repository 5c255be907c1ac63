#pragma once

#include "hp/status.h"
#include "layers/layer.h"

#include <cstdint>
#include <optional>
#include <span>

namespace hp {

/// The label that `layer` (a loss or accuracy) leaves out, if its parameters name one.
std::optional<int> IgnoredLabel(const Layer& layer);

/// Whether every label is a whole number in [0, classes) or the one that is ignored. Losses and accuracies count on
/// it: who puts labels into a BatchContext calls this first. (An op given a bad label treats it as ignored.)
/// @return kInvalidArgument: "label 12 of row 3 is not in 0..9"; rows count from 0 within `labels`.
Status CheckLabels(std::span<const float> labels, int64_t classes, std::optional<int> ignore_label);

/// Whether bottoms [logits, labels] (or logits alone) fit a layer that reads labels: classes along axis 1, one label
/// for each row.
/// @param axis as the layer's parameters give it; negative ones count from the end.
Status CheckLabelledInputs(const Layer& layer, const std::vector<Shape>& in, int axis);

}  // namespace hp

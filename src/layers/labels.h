#pragma once

#include "hp/status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hp {

/// What labels one loss or accuracy takes.
struct LabelRule {
  std::string layer;
  int64_t classes = 0;  ///< labels are below it
  std::optional<int> ignore_label;
};

/// Whether every label is a whole number in [0, classes) or the one that is ignored. Losses and accuracies count on
/// it: who puts labels into a BatchContext calls this first. (An op given a bad label treats it as ignored.)
/// @return kInvalidArgument: "label 12 of row 3 is not in 0..9"; rows count from 0 within `labels`.
Status CheckLabels(std::span<const float> labels, const LabelRule& rule);

}  // namespace hp

#pragma once

#include "layers/traits/layer_traits.h"

#include <cstdint>

namespace hp {

/// Of an Accuracy: among how many of a row's highest scores its label counts as found (top_k); 0: of any other type.
uint32_t GuessesOf(const LayerTraits& layer);

}  // namespace hp

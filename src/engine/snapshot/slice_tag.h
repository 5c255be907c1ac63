#pragma once

#include "transport/transport.h"

#include <cstddef>
#include <cstdint>

namespace hp {

/// The tag of one slice on its way to the first node: of the version at the start of `clock`, of a parameter (index
/// into NodeModel::whole_params) its values or its history. An owner has one slice of a parameter, so the tag and the
/// owner name it.
inline PlaceTag SliceTag(int64_t clock, size_t param, bool history) {
  constexpr uint32_t kSliceBit = 0x80000000u;
  return {static_cast<uint64_t>(clock), kSliceBit | static_cast<uint32_t>(param) * 2 | (history ? 1 : 0)};
}

/// Whether a tag is SliceTag's: tensors of pipelines have smaller ports.
inline bool IsSliceTag(const PlaceTag& tag) { return (tag.channel & 0x80000000u) != 0; }

}  // namespace hp

#pragma once

#include "proto/solver_type.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>

namespace hp {

constexpr uint32_t kSliceBit = 0x80000000u;

/// The tag of one slice on its way to the first node: of the version at the start of `clock`, the values or a history
/// of its owner's slice of a parameter. An owner has one slice of a parameter, so tag and owner name it together.
/// @param param index into JobPlan::params, which is that into NodeModel::whole_params; below 2^29.
/// @param array 0: the values; else the number of the history, up to kMaxHistories.
inline PlaceTag SliceTag(int64_t clock, size_t param, int array) {
  static_assert(kMaxHistories < 4);
  return {static_cast<uint64_t>(clock), kSliceBit | static_cast<uint32_t>(param) * 4 | static_cast<uint32_t>(array)};
}

/// Whether a grant or write is of a slice: tensors of pipelines, and places of exchanges, have channels without the top
/// bit.
inline bool IsSliceTag(const PlaceTag& tag) { return (tag.channel & kSliceBit) != 0; }
/// What SliceTag was given. Only of a slice's tag; the peer may have made it up.
inline size_t SliceParam(const PlaceTag& tag) { return (tag.channel & ~kSliceBit) / 4; }
inline int SliceArray(const PlaceTag& tag) { return static_cast<int>(tag.channel & 3); }

constexpr uint64_t kResumeId = ~uint64_t{0};

/// The tag of a piece of a snapshot on its way to a node that resumes from it and lacks it.
/// @param param index into NodePlan::params of the node that asks; below 2^29. @param array as SliceTag's.
inline PlaceTag ResumeTag(size_t param, int array) { return {kResumeId, SliceTag(0, param, array).channel}; }
/// Such a tag is a slice's (IsSliceTag), too: no clock has this id.
inline bool IsResumeTag(const PlaceTag& tag) { return IsSliceTag(tag) && tag.msg_id == kResumeId; }

}  // namespace hp

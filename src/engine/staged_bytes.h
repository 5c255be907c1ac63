#pragma once

#include <cstddef>

namespace hp {

/// Bytes that a place of `bytes` takes in an allocation that several share: a multiple of 256, to which CUDA aligns its
/// own allocations, so that each place is aligned as one of them.
constexpr size_t StagedBytes(size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace hp

#pragma once

#include <cstddef>

namespace hp {

/// Bytes that a place of `bytes` takes among others in one allocation: each begins where any device may copy from.
constexpr size_t StagedBytes(size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace hp

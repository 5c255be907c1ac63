#pragma once

#include <cstdint>
#include <string_view>

namespace hp {

/// XXH64 of `bytes` with seed 0. Equal on all hosts, so it may be sent and saved. It detects accidental differences; it
/// is not cryptographic.
uint64_t HashBytes(std::string_view bytes);

}  // namespace hp

#pragma once

#include <cstdint>
#include <string_view>

namespace hp {

/// XXH64 of `bytes`, seed 0: equal on all hosts, so that it may be sent and saved. It protects against accidents, not
/// against anybody who means harm.
uint64_t HashBytes(std::string_view bytes);

}  // namespace hp

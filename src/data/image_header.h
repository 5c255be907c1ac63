#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hp {

/// Pixels of a JPEG or PNG as its header says, before anything is decoded: a few damaged bytes can say a billion. Any
/// thread. @return nothing: another format, or no such header.
std::optional<int64_t> DeclaredPixels(std::string_view bytes);

}  // namespace hp

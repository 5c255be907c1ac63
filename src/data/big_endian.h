#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hp {

// Numbers in the headers of JPEGs and PNGs. All their bytes must lie within `bytes`.

inline uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }
inline int64_t Big16(std::string_view bytes, size_t at) { return Byte(bytes, at) << 8 | Byte(bytes, at + 1); }
inline int64_t Big32(std::string_view bytes, size_t at) { return Big16(bytes, at) << 16 | Big16(bytes, at + 2); }

}  // namespace hp

#pragma once

#include "hp/status.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace hp {

// What an image's first bytes say, before anything is decoded. Any thread.

bool IsJpeg(std::string_view bytes);
bool IsPng(std::string_view bytes);
/// @return a well-known format that is neither, like "BMP"; empty: none.
std::string_view OtherImageFormat(std::string_view bytes);

/// Pixels of a JPEG or PNG as its header says: a few damaged bytes can say a billion. @return nothing: another format,
/// or no such header.
std::optional<int64_t> DeclaredPixels(std::string_view bytes);
/// Whether all chunks of a PNG, up to its end chunk, lie within `bytes`.
bool PngChunksFit(std::string_view bytes);
/// @return kDataLoss: `pixels`, said by the header of an image of `bytes`, are more than kMaxImagePixels.
Status CheckDeclaredPixels(int64_t pixels, size_t bytes);

}  // namespace hp

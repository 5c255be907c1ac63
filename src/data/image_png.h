#pragma once

#include "data/image.h"

#include <string>
#include <string_view>

namespace hp {

// PNG by libpng: the same pixels and bytes as OpenCV 4.6, whose rules for the channels and EXIF these are. Any thread.

/// Decodes every PNG. Alpha is dropped, not composed, but for kAsStored, where what has alpha or transparent colors
/// becomes B, G, R, alpha (a transparent gray stays gray). Gray of a color image is 0.299 R + 0.587 G + 0.114 B.
/// @return as DecodeImage; whatever libpng calls an error is kDataLoss, a missing end too.
StatusOr<Image> DecodePng(std::string_view bytes, ImageColor color);

/// Encodes 1, 3 or 4 channels, for speed rather than size. @return the bytes of a file; kInvalidArgument: libpng
/// cannot, in its words.
StatusOr<std::string> EncodePng(const Image& image);

}  // namespace hp

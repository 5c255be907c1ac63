#pragma once

#include <optional>
#include <string_view>

namespace hp {

/// Of an image, in pixels.
struct ImageSize {
  int height = 0, width = 0;
};

/// The size of a JPEG that any decoder takes and makes the same colors of, but for a few levels: complete, baseline or
/// progressive with Huffman codes, 8 bits, three channels that are Y, Cb and Cr by all that its header says, the last
/// two as large as the first or half as large in either direction, and upright. What stands behind the header is not
/// looked at, except that the end is there. Any thread.
/// @return nothing: something else, which only some decoders take, or each in its own way.
/// Source: ITU-T T.81, annex B; the colors as libjpeg chooses them (its jdapimin.c).
std::optional<ImageSize> PlainJpegSize(std::string_view bytes);

}  // namespace hp

#pragma once

#include "data/image.h"

#include <optional>
#include <string_view>

namespace hp {

/// Bytes in front of EXIF's own in a JPEG's segment: "Exif\0\0".
constexpr unsigned kExifPrefix = 6;

/// The orientation that a camera noted. @param tiff EXIF's own bytes, from "II" or "MM" on: a JPEG's segment APP1 after
/// "Exif\0\0", a PNG's chunk eXIf. Any bytes will do. @return as noted, lawful from 1 to 8; nothing: not noted, or
/// damaged: the bytes end before it, or a text in front of it lies outside them, which OpenCV does not forgive either.
/// Any thread, as the next. Source: TIFF 6.0, section 2, and its tag 274.
std::optional<int> ExifOrientation(std::string_view tiff);

/// Turns and mirrors `image` so that it is upright. @param orientation as from ExifOrientation; 1 and what is unlawful
/// leave the image as it is.
Image TurnUpright(Image image, int orientation);

}  // namespace hp

#pragma once

#include "data/image.h"

#include <string>
#include <string_view>

namespace hp {

// JPEG by libjpeg-turbo, with its accurate DCT and its smooth upsampling: the same pixels and bytes as OpenCV 4.6,
// whose rules for the channels and EXIF these are. Any thread.

/// Decodes every JPEG that libjpeg-turbo can: baseline, progressive and arithmetic; gray, YCbCr, RGB, CMYK and YCCK.
/// Gray of a color image is its Y. What is missing of a truncated image is gray or as coarse as the last complete scan;
/// that is no error, as it is none for libjpeg. @return as DecodeImagePart.
StatusOr<DecodedPart> DecodeJpeg(std::string_view bytes, ImageColor color, const ChoosePart& choose);

/// Encodes 1, 3 or 4 channels (alpha is dropped) with quality 95, 4:2:0. @return the bytes of a file; kInvalidArgument:
/// libjpeg cannot, in its words.
StatusOr<std::string> EncodeJpeg(const Image& image);

}  // namespace hp

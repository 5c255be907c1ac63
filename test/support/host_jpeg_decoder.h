#pragma once

#include "backend/cuda/library.h"

#include <memory>

namespace hp::test {

/// What nvJPEG does, by libjpeg on the host, so that the pixels are those of a node on processors. It reads the JPEGs
/// when the call is made, to say whether it takes them, and again when the stream of copies in comes to them.
std::unique_ptr<GpuJpegDecoder> MakeHostJpegDecoder(Gpu* gpu);

}  // namespace hp::test

#pragma once

#include "backend/cuda/library.h"
#include "backend/cuda/nvjpeg_api.h"

#include <memory>

namespace hp {

/// JPEGs by nvJPEG, on `gpu`, a real GPU that must outlive the decoder. Its pixels are those of kernels, never of the
/// decoding engine that some GPUs have, and chroma is interpolated, so that they are near libjpeg's.
/// @param api of LoadNvjpeg; must outlive the decoder. @return kInternal: nvJPEG or CUDA failed.
StatusOr<std::unique_ptr<GpuJpegDecoder>> MakeNvjpegDecoder(Gpu* gpu, const NvjpegApi& api);

}  // namespace hp

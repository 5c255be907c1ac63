#pragma once

#include "backend/backend.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/library.h"

#include <span>

namespace hp {

namespace cuda {
class KeptGradients;
}

/// What an op of a GPU works with; outlives it.
struct GpuContext {
  Gpu* gpu = nullptr;
  GpuLibrary* library = nullptr;
  cuda::KeptGradients* kept_gradients = nullptr;
  double* partial_sums = nullptr;  ///< [cuda::PartialSums()], for work in the compute stream
  GpuStream stream() const { return gpu->stream(Device::kCompute); }
};

namespace cuda {

/// Doubles of device memory that SumsOfSquares needs between its two kernels (GpuContext::partial_sums).
int64_t PartialSums();
/// Backend::UpdateParams and Backend::SumsOfSquares; parts are copied, all that they point to is in the GPU's memory.
void UpdateParams(const GpuStream& stream, std::span<const UpdatePart> parts);
void SumsOfSquares(const GpuContext& context, std::span<const SquaresPart> parts);
/// Backend::FloatImages.
void FloatImages(const GpuStream& stream, const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out);
/// PadChannels of what FloatImages makes of `images`, with the same bits.
void PadImages(const GpuStream& stream, const RawImages& images, const TensorDesc& padded_desc, void* padded);
/// Backend::Clear.
void Clear(const GpuStream& stream, std::span<float> values);

/// Copies a tensor from one layout (dense or NHWC) and element type to another, without overlap. Shapes are equal, or
/// both tensors dense with equally many elements.
void CopyLayout(const GpuStream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc,
                void* to);

}  // namespace cuda
}  // namespace hp

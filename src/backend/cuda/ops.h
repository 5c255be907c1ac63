#pragma once

#include "backend/backend.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/library.h"

#include <span>

namespace hp {

/// What an op of a GPU works with; outlives it.
struct GpuContext {
  Gpu* gpu = nullptr;
  GpuLibrary* library = nullptr;
  double* partial_sums = nullptr;  ///< [cuda::PartialSums()], for work in the compute stream
  GpuStream stream() const { return gpu->stream(Device::kCompute); }
};

// What makes the GPU's ops, one function per layer kind; Backend (backend/backend.h) says what each computes. Tensors
// are dense or NHWC, of float32 or of the library's element type, in the GPU's memory. A call only puts work into the
// compute stream, and the same work for the same arguments: it may be recorded and repeated.
namespace cuda {

StatusOr<Backend::OpPtr> MakeConvolution(const GpuContext& context, const ConvolutionDesc& desc,
                                         const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakePooling(const GpuContext& context, const PoolingDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeLrn(const GpuContext& context, const LrnDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeInnerProduct(const GpuContext& context, const InnerProductDesc& desc,
                                          const Backend::Descs& in);

StatusOr<Backend::OpPtr> MakeActivation(const GpuContext& context, const ActivationDesc& desc,
                                        const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeDropout(const GpuContext& context, const DropoutDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeSoftmax(const GpuContext& context, int axis, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeSoftmaxLoss(const GpuContext& context, const SoftmaxLossDesc& desc,
                                         const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeAccuracy(const GpuContext& context, const AccuracyDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeFlatten(const GpuContext& context, const Shape& out, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeConcat(const GpuContext& context, int axis, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeEltwise(const GpuContext& context, const EltwiseDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeSplit(const GpuContext& context, int ways, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeExport(const GpuContext& context, int parts, const Backend::Descs& in);

/// Doubles that SumsOfSquares keeps between its two kernels.
int64_t PartialSums();
/// Backend's. Sums are in the GPU's memory.
void SgdUpdate(const GpuStream& stream, std::span<const SgdPart> parts);
void SumsOfSquares(const GpuContext& context, std::span<const SquaresPart> parts);

/// Copies a tensor from one layout and element type to another. Shapes are equal, or both dense.
void CopyLayout(const GpuStream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc,
                void* to);

}  // namespace cuda
}  // namespace hp

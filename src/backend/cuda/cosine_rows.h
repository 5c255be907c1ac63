#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>

// What a CosineProduct does to rows beside its matrix products, put into `stream`. All memory is the GPU's; matrices
// are dense float32. Norms are kept as their inverses and count as at least CosineProductDesc::kLeastNorm.
namespace hp::cuda {

/// The inverse norms of the rows of x [rows, width].
void InverseNorms(const GpuStream& stream, int64_t rows, int64_t width, const float* x, float* inverse_norms);

/// The same, and divides the rows by their norms.
void NormaliseRows(const GpuStream& stream, int64_t rows, int64_t width, float* x, float* inverse_norms);

/// Copies `width` columns of `rows` rows. Strides are elements from one row to the next.
void CopyColumns(const GpuStream& stream, int64_t rows, int64_t width, const float* from, int64_t from_stride,
                 float* to, int64_t to_stride);

/// to[r][c] = factors[c] * from[r][c], rounded to `element`; may work in place.
void ScaleColumns(const GpuStream& stream, int64_t rows, int64_t columns, const float* factors, const float* from,
                  ElementType element, void* to);

/// A gradient of normalised rows brought back through the normalisation: dx = (dx - u (u dx)) / |x|, u being x / |x|.
/// @param unit u [rows, width].
void ProjectOnUnitRows(const GpuStream& stream, int64_t rows, int64_t width, const float* unit,
                       const float* inverse_norms, float* dx);

/// The same in two steps around the product that adds a gradient to what `dx` has already, which stays. Before: dx |x|,
/// and its part along x. @param kept [rows]. @param x [rows, width], not normalised.
void BeginAddedProjection(const GpuStream& stream, int64_t rows, int64_t width, const float* x,
                          const float* inverse_norms, float* dx, float* kept);
/// After. @param kept null: dx had nothing.
void ProjectOnRows(const GpuStream& stream, int64_t rows, int64_t width, const float* x, const float* inverse_norms,
                   const float* kept, float* dx);

}  // namespace hp::cuda

#pragma once

#include "backend/backend.h"

#include <cstdint>

namespace hp {

/// CpuBackend::InnerProduct with its output described as `out`, which has as many elements and the rows first: also a
/// convolution whose one window is the whole image, whose weights are the same matrix.
/// @param factors bfloat16: rounded to it (rounded_product.h) where the processor has AMX. @return as onednn::Guard.
StatusOr<Backend::OpPtr> MakeInnerProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out,
                                          ElementType factors);

/// The same where InnerProductDesc::transposed is true.
Backend::OpPtr MakeTransposedProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out);

/// y [rows, outputs] = the transpose of `product`, times the factors [outputs] and plus the bias [outputs] unless these
/// are null. @param y_stride floats from one row of y to the next.
void TransposeProduct(const float* product, int64_t rows, int64_t outputs, const float* factors, const float* bias,
                      float* y, int64_t y_stride);

}  // namespace hp

#pragma once

#include "backend/backend.h"

namespace hp {

/// CpuBackend::InnerProduct with its output described as `out`, which has as many elements and the rows first: also a
/// convolution whose one window is the whole image, whose weights are the same matrix.
/// @return as onednn::Guard.
StatusOr<Backend::OpPtr> MakeInnerProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out);

/// The same where InnerProductDesc::transposed is true.
Backend::OpPtr MakeTransposedProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out);

}  // namespace hp

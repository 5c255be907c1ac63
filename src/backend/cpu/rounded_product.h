#pragma once

#include "backend/backend.h"

namespace hp {

/// What MakeInnerProduct makes, with factors rounded to bfloat16: x and W forward, dy and W for the inputs' gradient,
/// dy and x for the weights'. Sums, outputs and gradients are float32. It keeps the weights in two formats, which an
/// update in pieces writes on its way (PackedParams::RefillRows). Fast with AMX; with AVX512_BF16 alone it is not.
/// @param desc not transposed. @return null where oneDNN has nothing but plain loops for it; else as onednn::Guard.
StatusOr<Backend::OpPtr> MakeRoundedProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out);

}  // namespace hp

#pragma once

#include "backend/backend.h"

namespace hp {

/// What CpuBackend::CosineProduct makes, with factors rounded to bfloat16: the normalised features and W forward, the
/// gradient of the cosines (times the norms) and W for the inputs' gradient, or x for the weights'. Norms, sums,
/// outputs and gradients are float32. Beside the two formats of W of rounded_products.h it keeps the norms of W's rows.
/// @return null where oneDNN has nothing but plain loops for it; else as onednn::Guard.
StatusOr<Backend::OpPtr> MakeRoundedCosines(const CosineProductDesc& desc, const Backend::Descs& in);

}  // namespace hp

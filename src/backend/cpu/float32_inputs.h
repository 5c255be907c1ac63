#pragma once

#include "backend/cpu/reorder.h"
#include "backend/float32_inputs.h"

namespace hp {

/// Makes an op that knows float32 alone, or in the dense layout alone, for inputs of bfloat16 too (MakeOnFloat32).
/// @param make StatusOr<Backend::OpPtr>(const Backend::Descs& in), `in` being float32.
template <typename Make>
StatusOr<Backend::OpPtr> OnFloat32(const Backend::Descs& in, const Make& make, bool dense = false) {
  return MakeOnFloat32(HostCopies(), in, make, dense);
}

}  // namespace hp

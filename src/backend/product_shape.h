#pragma once

#include "backend/backend.h"

namespace hp {

/// The output's shape of InnerProductDesc: the axes of an input of shape `in` that are rows, then the outputs.
inline Shape ProductShape(const InnerProductDesc& desc, const Shape& in) {
  std::vector<int64_t> dims(in.dims().begin(), in.dims().begin() + desc.axis);
  dims.push_back(desc.num_output);
  return Shape(dims);
}

}  // namespace hp

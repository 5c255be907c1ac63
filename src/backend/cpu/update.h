#pragma once

#include "backend/update.h"

#include <cstdint>

namespace hp {

/// Backend::UpdateParams of one part. By all threads of an OpenMP team from 32768 elements on;
/// by the calling thread alone inside a parallel region, so that threads can update pieces of their own.
void UpdateParams(const UpdatePart& part);

/// Backend::SumsOfSquares of one part, threads likewise; the bits depend on the values and n only.
double SumOfSquares(const float* values, int64_t n);

}  // namespace hp

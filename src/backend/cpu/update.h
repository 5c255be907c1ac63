#pragma once

#include "backend/update.h"

#include <cstdint>

namespace hp {

/// A part of Backend::SgdUpdate, by all threads of an OpenMP team (by the calling thread alone inside a parallel
/// region).
void SgdUpdate(const SgdCoefficients& coefficients, int64_t n, const float* gradient, float* history, float* weights);

/// One of Backend::SumsOfSquares, likewise.
double SumOfSquares(const float* values, int64_t n);

}  // namespace hp

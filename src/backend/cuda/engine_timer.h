#pragma once

#include "backend/cuda/gpu.h"

#include <cstddef>
#include <functional>

namespace hp {

// How long something takes on a GPU: memory to try it in, and its time. Both block; no other work may be in the compute
// stream.

/// Memory of `gpu` that is full of numbers of magnitudes from 1 to 2, finite in float32 and in both types of 16 bits:
/// products of zeros draw less power, and a GPU that draws less runs faster. Errors as Device::Allocate's.
StatusOr<Buffer> AllocateNumbers(Gpu* gpu, size_t bytes);

/// Milliseconds of the GPU for `work`, which puts the same work into the compute stream at each call. It is called a
/// few times, first to load what it needs, then by fours between two events of CUDA: the least of these times counts,
/// and of work that is shorter than its launch that is what its launch takes.
/// @return the error of `work`; kInternal: the GPU failed.
StatusOr<double> LeastMilliseconds(Gpu* gpu, const std::function<Status()>& work);

}  // namespace hp

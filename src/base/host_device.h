#pragma once

/// Marks a function that runs on the host and in kernels of a GPU alike, so that tests can run on the host what a
/// kernel computes.
#if defined(__CUDACC__)
#define HP_HOST_DEVICE __host__ __device__
#else
#define HP_HOST_DEVICE
#endif

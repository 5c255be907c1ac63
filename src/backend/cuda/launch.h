#pragma once

#include "backend/cuda/gpu.h"
#include "base/host_device.h"

#include <cstdint>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

// How own kernels run: a functor says what happens to one element or one row; the loops here apply it to all of them,
// on a GPU or, where the stream is a HostStream, on the host. They only put the work into the stream and copy the
// functor, which holds plain numbers and pointers to the GPU's memory, never references or `this`. Errors of a launch
// are CUDA's last error, which Device::Record checks. Only for .cu files.
namespace hp {

constexpr int kBlockThreads = 256;

#if defined(__CUDACC__)

template <typename Functor>
__global__ void __launch_bounds__(kBlockThreads) ForEachKernel(int64_t n, Functor functor) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) functor(i);
}

/// Calls functor(int64_t i) for each i in [0, n), in any order and concurrently; consecutive threads have consecutive
/// i.
template <typename Functor>
void ForEach(const GpuStream& stream, int64_t n, const Functor& functor) {
  if (n == 0) return;
  if (stream.host != nullptr) {
    stream.host->Enqueue([n, functor] {
      for (int64_t i = 0; i < n; ++i) functor(i);
    });
    return;
  }
  const int64_t blocks = (n + kBlockThreads - 1) / kBlockThreads;
  const unsigned grid = static_cast<unsigned>(blocks < (1 << 20) ? blocks : (1 << 20));
  ForEachKernel<<<grid, kBlockThreads, 0, static_cast<cudaStream_t>(stream.cuda)>>>(n, functor);
}

template <typename Reduction>
concept HasEach = requires(const Reduction& reduction, int64_t i, const typename Reduction::Value& value) {
  reduction.Each(i, i, value);
};

/// A row of `width` elements, as all rows of most reductions are.
template <typename Reduction>
struct EvenRow {
  const Reduction& reduction;
  int64_t row, width;
  HP_HOST_DEVICE typename Reduction::Value operator()(int64_t i) const { return reduction.Map(row, i); }
};
template <typename Reduction>
concept HasRowAt = requires(const Reduction& reduction, int64_t row) {
  reduction.RowAt(row);
};

template <typename Reduction>
HP_HOST_DEVICE inline auto RowOf(const Reduction& reduction, int64_t row, int64_t width) {
  if constexpr (HasRowAt<Reduction>) {
    return reduction.RowAt(row);
  } else {
    return EvenRow<Reduction>{reduction, row, width};
  }
}

/// What a block of threads does with one row: each thread combines the elements i = t, t + 256, ... of the row, then
/// the threads' values are combined pairwise in a fixed order, so that equal rows give equal bits.
///   struct Reduction {
///     using Value = ...;
///     Value Identity() const;
///     Value Map(int64_t row, int64_t i) const;
///     Value Combine(const Value& a, const Value& b) const;
///     void Finish(int64_t row, const Value& value) const;   // by one thread
///     void Each(int64_t row, int64_t i, const Value& value) const;   // optional: then, for each element, by its
///     thread
///     Row RowAt(int64_t row) const;   // instead of Map, where rows differ: Row has `width` and operator()(int64_t i)
///   };
template <typename Reduction>
__global__ void __launch_bounds__(kBlockThreads) ReduceRowsKernel(int64_t rows, int64_t width, Reduction reduction) {
  using Value = typename Reduction::Value;
  __shared__ alignas(alignof(Value)) unsigned char memory[kBlockThreads * sizeof(Value)];
  Value* values = reinterpret_cast<Value*>(memory);
  const int thread = threadIdx.x;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto one = RowOf(reduction, row, width);
    Value value = reduction.Identity();
    for (int64_t i = thread; i < one.width; i += kBlockThreads) value = reduction.Combine(value, one(i));
    values[thread] = value;
    __syncthreads();
    for (int half = kBlockThreads / 2; half > 0; half /= 2) {
      if (thread < half) values[thread] = reduction.Combine(values[thread], values[thread + half]);
      __syncthreads();
    }
    if (thread == 0) reduction.Finish(row, values[0]);
    if constexpr (HasEach<Reduction>) {
      const Value all = values[0];
      for (int64_t i = thread; i < one.width; i += kBlockThreads) reduction.Each(row, i, all);
    }
    __syncthreads();
  }
}

/// What ReduceRowsKernel computes, on the host, combining in the same order, so that the bits agree.
template <typename Reduction>
void ReduceRowsOnHost(int64_t rows, int64_t width, const Reduction& reduction) {
  using Value = typename Reduction::Value;
  for (int64_t row = 0; row < rows; ++row) {
    const auto one = RowOf(reduction, row, width);
    std::vector<Value> values(kBlockThreads, reduction.Identity());
    for (int64_t i = 0; i < one.width; ++i) {
      Value& value = values[i % kBlockThreads];
      value = reduction.Combine(value, one(i));
    }
    for (int half = kBlockThreads / 2; half > 0; half /= 2) {
      for (int t = 0; t < half; ++t) values[t] = reduction.Combine(values[t], values[t + half]);
    }
    reduction.Finish(row, values[0]);
    if constexpr (HasEach<Reduction>) {
      for (int64_t i = 0; i < one.width; ++i) reduction.Each(row, i, values[0]);
    }
  }
}

/// Calls reduction.Finish(row, value) for each row in [0, rows), value being Map(row, i) for all i in [0, width)
/// combined as ReduceRowsKernel says; then Each, if there is one. A block of threads for each row: for long rows.
/// @param width of all rows; not read where the reduction has RowAt.
template <typename Reduction>
void ReduceRows(const GpuStream& stream, int64_t rows, int64_t width, const Reduction& reduction) {
  if (rows == 0) return;
  if (stream.host != nullptr) {
    stream.host->Enqueue([=] { ReduceRowsOnHost(rows, width, reduction); });
    return;
  }
  const unsigned grid = static_cast<unsigned>(rows < (1 << 20) ? rows : (1 << 20));
  ReduceRowsKernel<<<grid, kBlockThreads, 0, static_cast<cudaStream_t>(stream.cuda)>>>(rows, width, reduction);
}

/// What one thread does with one row, from its first element to its last.
template <typename Reduction>
struct ReduceOneRow {
  int64_t width;
  Reduction reduction;
  HP_HOST_DEVICE void operator()(int64_t row) const {
    typename Reduction::Value value = reduction.Identity();
    for (int64_t i = 0; i < width; ++i) value = reduction.Combine(value, reduction.Map(row, i));
    reduction.Finish(row, value);
    if constexpr (HasEach<Reduction>) {
      for (int64_t i = 0; i < width; ++i) reduction.Each(row, i, value);
    }
  }
};

/// The same with one thread for each row, which combines from the first element to the last: for many short rows, or
/// where consecutive rows have consecutive elements. No RowAt.
template <typename Reduction>
void ReduceShortRows(const GpuStream& stream, int64_t rows, int64_t width, const Reduction& reduction) {
  ForEach(stream, rows, ReduceOneRow<Reduction>{width, reduction});
}

#endif

}  // namespace hp

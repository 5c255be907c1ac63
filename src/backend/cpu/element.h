#pragma once

#include "base/bfloat16.h"
#include "tensor/tensor.h"

#include "glog/logging.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

// Ops on tensors of float32 or bfloat16. They compute in float32, and what they write is rounded.
namespace hp {

/// Of a run that is computed in a buffer: 4 KiB, so that a few fit into the first-level cache.
constexpr int64_t kRunElements = 1024;

/// Passes a type to a generic lambda.
template <typename T>
struct ElementTag {
  using Type = T;
};

/// Calls make(ElementTag<T>()) with the type T that holds an `element` in memory; not float16 (CHECK), which CPUs do
/// not compute with:
///   OfElement(desc.element, [&](auto tag) { using T = typename decltype(tag)::Type; ... });
template <typename Make>
auto OfElement(ElementType element, const Make& make) {
  CHECK(element != ElementType::kFloat16) << "float16 on a CPU";
  if (element == ElementType::kBFloat16) return make(ElementTag<BFloat16>());
  return make(ElementTag<float>());
}

/// Computes elements [begin, end) of `to` in float32, run by run: write(first, count, values) fills `values` with
/// elements [first, first + count), in their place or, of bfloat16, in a buffer that the first-level cache holds.
template <typename T, typename Write>
void ForRuns(int64_t begin, int64_t end, T* to, const Write& write) {
  if constexpr (std::is_same_v<T, float>) {
    write(begin, end - begin, to + begin);
  } else {
    alignas(64) float values[kRunElements];
    for (int64_t first = begin; first < end; first += kRunElements) {
      const int64_t count = std::min(kRunElements, end - first);
      write(first, count, values);
      T* const own = to + first;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) own[i] = values[i];
    }
  }
}

/// Elements [first, first + count) of `from` as floats: in their place, or if they are none as a copy in `buffer`,
/// which has room for kRunElements.
template <typename T>
const float* FloatsAt(const T* from, int64_t first, int64_t count, float* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    return from + first;
  } else {
    const T* const own = from + first;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) buffer[i] = own[i];
    return buffer;
  }
}

/// The data of a tensor whose element type T holds; not checked.
template <typename T>
T* DataOf(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

}  // namespace hp

#pragma once

#include "backend/cuda/pack.h"
#include "tensor/tensor.h"

#include "glog/logging.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

// Reading and writing elements of 16 bits: kernels compute in float32 and round what they write to the nearest value,
// ties to even. Only for .cu files.
namespace hp {

using Bfloat16 = __nv_bfloat16;
using Float16 = __half;

HP_HOST_DEVICE inline float ToFloat(float value) { return value; }
HP_HOST_DEVICE inline float ToFloat(Bfloat16 value) { return __bfloat162float(value); }
HP_HOST_DEVICE inline float ToFloat(Float16 value) { return __half2float(value); }

HP_HOST_DEVICE inline void Put(float value, float* to) { *to = value; }
HP_HOST_DEVICE inline void Put(float value, Bfloat16* to) { *to = __float2bfloat16_rn(value); }
HP_HOST_DEVICE inline void Put(float value, Float16* to) { *to = __float2half_rn(value); }

/// W consecutive elements as float32, read in one access; `from` is aligned to W elements.
template <int W, typename T>
HP_HOST_DEVICE inline Pack<float, W> ReadPack(const T* from) {
  const Pack<T, W> raw = LoadPack<W>(from);
  Pack<float, W> pack;
  for (int w = 0; w < W; ++w) pack.of[w] = ToFloat(raw.of[w]);
  return pack;
}
/// Rounds W values to T and writes them in one access; alignment likewise.
template <typename T, int W>
HP_HOST_DEVICE inline void WritePack(T* to, const Pack<float, W>& pack) {
  Pack<T, W> raw;
  for (int w = 0; w < W; ++w) Put(pack.of[w], &raw.of[w]);
  StorePack(to, raw);
}

/// Passes a type to a generic lambda.
template <typename T>
struct TypeTag {
  using Type = T;
};

/// Calls make(TypeTag<T>()) with the C++ type T of `element`:
///   WithElementType(desc.element, [&](auto type) { using T = typename decltype(type)::Type; ... });
template <typename Make>
auto WithElementType(ElementType element, const Make& make) {
  switch (element) {
    case ElementType::kBFloat16:
      return make(TypeTag<Bfloat16>());
    case ElementType::kFloat16:
      return make(TypeTag<Float16>());
    case ElementType::kFloat32:
      break;
  }
  return make(TypeTag<float>());
}

/// Calls visit(TypeTag<T>(), TypeTag<U>()) for a tensor in a library's form, of type T, and the one that it is a copy
/// of, whose type is the same or float32 (CHECK).
template <typename Visit>
void WithFormTypes(ElementType form, ElementType other, const Visit& visit) {
  CHECK(other == form || other == ElementType::kFloat32) << "two types of 16 bits";
  WithElementType(form, [&](auto type) {
    if (other == form) return visit(type, type);
    visit(type, TypeTag<float>());
  });
}

/// The data of a tensor as T*, which its element type must be; not checked.
template <typename T>
T* DataAs(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

}  // namespace hp

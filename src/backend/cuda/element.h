#pragma once

#include "backend/cuda/pack.h"
#include "tensor/tensor.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

// Elements of 16 bits: kernels compute in float32 and round what they write, to the nearest, to even where two are.
// Only for .cu files.
namespace hp {

using Bfloat16 = __nv_bfloat16;
using Float16 = __half;

HP_HOST_DEVICE inline float ToFloat(float value) { return value; }
HP_HOST_DEVICE inline float ToFloat(Bfloat16 value) { return __bfloat162float(value); }
HP_HOST_DEVICE inline float ToFloat(Float16 value) { return __half2float(value); }

HP_HOST_DEVICE inline void Put(float value, float* to) { *to = value; }
HP_HOST_DEVICE inline void Put(float value, Bfloat16* to) { *to = __float2bfloat16_rn(value); }
HP_HOST_DEVICE inline void Put(float value, Float16* to) { *to = __float2half_rn(value); }

/// W neighbours as float32, read at once.
template <int W, typename T>
HP_HOST_DEVICE inline Pack<float, W> ReadPack(const T* from) {
  const Pack<T, W> raw = LoadPack<W>(from);
  Pack<float, W> pack;
  for (int w = 0; w < W; ++w) pack.of[w] = ToFloat(raw.of[w]);
  return pack;
}
template <typename T, int W>
HP_HOST_DEVICE inline void WritePack(T* to, const Pack<float, W>& pack) {
  Pack<T, W> raw;
  for (int w = 0; w < W; ++w) Put(pack.of[w], &raw.of[w]);
  StorePack(to, raw);
}

/// Stands for a type where a value of it would be made only to be thrown away.
template <typename T>
struct TypeTag {
  using Type = T;
};

/// make(TypeTag<T>()) with the C++ type of the elements.
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

/// The data of a tensor whose elements are of type T.
template <typename T>
T* DataAs(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

}  // namespace hp

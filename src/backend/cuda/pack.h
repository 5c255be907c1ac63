#pragma once

#include "backend/cuda/launch.h"

#include <cstdint>
#include <initializer_list>

// Reads and writes of 16 bytes: loops that are bound by memory reach its speed with fewer instructions. Only for .cu
// files.
namespace hp {

/// W values that lie side by side.
template <typename T, int W>
struct alignas(W * sizeof(T)) Pack {
  T of[W];
};

template <int W, typename T>
HP_HOST_DEVICE inline Pack<T, W> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, W>*>(from);
}
template <typename T, int W>
HP_HOST_DEVICE inline void StorePack(T* to, const Pack<T, W>& pack) {
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}

#if defined(__CUDACC__)
/// One instruction on the GPU; the compiler takes the above to pieces in some loops.
HP_HOST_DEVICE inline void StorePack(float* to, const Pack<float, 4>& pack) {
#if defined(__CUDA_ARCH__)
  __stwb(reinterpret_cast<float4*>(to), make_float4(pack.of[0], pack.of[1], pack.of[2], pack.of[3]));
#else
  StorePack<float, 4>(to, pack);
#endif
}
#endif

/// Whether float32 memory at all of these can be accessed in packs of four. A property of the arguments, so that a
/// recording stays right.
inline bool Packable(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % (4 * sizeof(float)) != 0) return false;
  }
  return true;
}

/// Takes the items of ForEach to elements: packs first, then what is left over one by one.
template <typename Functor>
struct EachPack {
  int64_t packs;
  Functor functor;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    if (i < packs) {
      functor.template Run<4>(4 * i);
    } else {
      functor.template Run<1>(3 * packs + i);
    }
  }
};

/// functor.Run<W>(i) for elements [i, i + W), until all of [0, n) are done, in any order; W is 4 or 1.
/// @param packable Run<4> may be called, for multiples of 4.
template <typename Functor>
void ForEachPack(const GpuStream& stream, int64_t n, bool packable, const Functor& functor) {
  const int64_t packs = packable ? n / 4 : 0;
  ForEach(stream, n - 3 * packs, EachPack<Functor>{packs, functor});
}

}  // namespace hp

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

/// Of a pack of 16 bytes.
template <typename T>
constexpr int kPackWidth = 16 / sizeof(T);

template <int W, typename T>
HP_HOST_DEVICE inline Pack<T, W> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T, W>*>(from);
}
template <typename T, int W>
HP_HOST_DEVICE inline void StorePack(T* to, const Pack<T, W>& pack) {
#if defined(__CUDA_ARCH__)
  // One instruction: the compiler takes the assignment to pieces in some loops.
  if constexpr (sizeof(pack) == 16) {
    __stwb(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&pack));
    return;
  }
#endif
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}

/// Whether memory at all of these can be accessed in packs of 16 bytes or less. A property of the arguments, so that a
/// recording stays right.
inline bool Packable(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return false;
  }
  return true;
}

/// Takes the items of ForEach to elements: packs first, then what is left over one by one.
template <typename Functor, int W>
struct EachPack {
  int64_t packs;
  Functor functor;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    if (i < packs) {
      functor.template Run<W>(W * i);
    } else {
      functor.template Run<1>((W - 1) * packs + i);
    }
  }
};

/// functor.Run<V>(i) for elements [i, i + V), until all of [0, n) are done, in any order; V is W or 1.
/// @param packable Run<W> may be called, for multiples of W.
template <int W, typename Functor>
void ForEachPack(const GpuStream& stream, int64_t n, bool packable, const Functor& functor) {
  const int64_t packs = packable ? n / W : 0;
  ForEach(stream, n - (W - 1) * packs, EachPack<Functor, W>{packs, functor});
}

}  // namespace hp

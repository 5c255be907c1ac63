#pragma once

#include "backend/cuda/launch.h"

#include <cstdint>
#include <initializer_list>

// Memory access in units of 16 bytes, so that loops that are bound by memory reach its speed with fewer instructions.
// Only for .cu files.
namespace hp {

/// W consecutive values, aligned to their size.
template <typename T, int W>
struct alignas(W * sizeof(T)) Pack {
  T of[W];
};

/// Values of T in 16 bytes.
template <typename T>
constexpr int kPackWidth = 16 / sizeof(T);

// One access of sizeof(Pack); the address must be aligned to that (Packable).
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

/// Whether all addresses are multiples of 16, so that packs can be used. It depends on the arguments only, so captured
/// work stays valid.
inline bool Packable(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return false;
  }
  return true;
}

/// Maps the items of ForEach to elements: packs first, then the remaining elements one by one.
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

/// Calls functor.Run<V>(i) for elements [i, i + V), V being W or 1, so that each of [0, n) is done once, in any order.
/// @param packable whether Run<W> may be called (for i a multiple of W): Packable of all addresses.
template <int W, typename Functor>
void ForEachPack(const GpuStream& stream, int64_t n, bool packable, const Functor& functor) {
  const int64_t packs = packable ? n / W : 0;
  ForEach(stream, n - (W - 1) * packs, EachPack<Functor, W>{packs, functor});
}

}  // namespace hp

#include "backend/cuda/channel_groups.h"
#include "backend/cuda/channel_places.h"
#include "backend/cuda/element.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"

namespace hp::cuda {
namespace {

/// Packs of 16 bytes of the tensor in groups, and where their channels lie in the other one.
template <typename T>
struct GroupPacks {
  static constexpr int kWidth = kPackWidth<T>;
  Divisor packs;         ///< of a pixel
  ChannelPlaces groups;  ///< in packs
  ChannelStrides other;
  int64_t pixels;  ///< of an image

  GroupPacks(const TensorDesc& desc, int64_t groups)
      : packs(desc.shape[1] / kWidth),
        groups{Divisor(desc.shape[1] / groups / kWidth), desc.shape[0] * desc.shape.count(2)},
        other(desc),
        pixels(desc.shape.count(2)) {
    CHECK(desc.shape[1] % (groups * kWidth) == 0) << "[" << desc.shape << "] in " << groups << " groups";
  }

  /// Offsets of pack i of an image in both tensors.
  struct Places {
    int64_t in_groups, in_other;
  };
  HP_HOST_DEVICE Places At(int64_t n, uint32_t i) const {
    uint32_t pack;
    const uint32_t p = packs.Quotient(i, &pack);
    return {kWidth * groups.At(n * pixels + p, pack),
            n * other.image + p * other.pixel + kWidth * int64_t{pack} * other.channel};
  }
};

/// Of one type, and NHWC: packs are moved.
template <typename T, bool kToGroups>
struct MovePack {
  GroupPacks<T> g;
  const T* from;
  T* to;
  HP_HOST_DEVICE void operator()(int64_t n, uint32_t i) const {
    const auto at = g.At(n, i);
    const Pack<T, kPackWidth<T>> pack = LoadPack<kPackWidth<T>>(from + (kToGroups ? at.in_other : at.in_groups));
    StorePack(to + (kToGroups ? at.in_groups : at.in_other), pack);
  }
};

template <typename From, typename T>
struct GatherPack {
  GroupPacks<T> g;
  const From* from;
  T* to;
  HP_HOST_DEVICE void operator()(int64_t n, uint32_t i) const {
    const auto at = g.At(n, i);
    Pack<float, kPackWidth<T>> pack;
    for (int k = 0; k < kPackWidth<T>; ++k) pack.of[k] = ToFloat(from[at.in_other + k * g.other.channel]);
    WritePack(to + at.in_groups, pack);
  }
};

template <typename T, typename To>
struct ScatterPack {
  GroupPacks<T> g;
  const T* from;
  To* to;
  HP_HOST_DEVICE void operator()(int64_t n, uint32_t i) const {
    const auto at = g.At(n, i);
    const Pack<float, kPackWidth<T>> pack = ReadPack<kPackWidth<T>>(from + at.in_groups);
    for (int k = 0; k < kPackWidth<T>; ++k) Put(pack.of[k], to + at.in_other + k * g.other.channel);
  }
};

template <typename Functor>
void ForPacks(const GpuStream& stream, const TensorDesc& other, const Functor& functor) {
  ForEachInRows(stream, other.shape[0], functor.g.pixels * functor.g.packs.value(), functor);
}

/// Whether packs of the tensor can be moved as they are.
bool HasPacks(const TensorDesc& desc, const void* data, ElementType element) {
  return LiesNhwc(desc) && desc.element == element && Packable({data});
}

}  // namespace

void CopyToGroups(const GpuStream& stream, const TensorDesc& from_desc, const void* from, ElementType element,
                  int64_t groups, void* to) {
  WithFormTypes(element, from_desc.element, [&](auto type, auto from_type) {
    using T = typename decltype(type)::Type;
    using From = typename decltype(from_type)::Type;
    const GroupPacks<T> packs(from_desc, groups);
    T* const into = static_cast<T*>(to);
    if (HasPacks(from_desc, from, element)) {
      return ForPacks(stream, from_desc, MovePack<T, true>{packs, static_cast<const T*>(from), into});
    }
    ForPacks(stream, from_desc, GatherPack<From, T>{packs, static_cast<const From*>(from), into});
  });
}

void CopyFromGroups(const GpuStream& stream, ElementType element, int64_t groups, const void* from,
                    const TensorDesc& to_desc, void* to) {
  WithFormTypes(element, to_desc.element, [&](auto type, auto to_type) {
    using T = typename decltype(type)::Type;
    using To = typename decltype(to_type)::Type;
    const GroupPacks<T> packs(to_desc, groups);
    const T* const source = static_cast<const T*>(from);
    if (HasPacks(to_desc, to, element)) {
      return ForPacks(stream, to_desc, MovePack<T, false>{packs, source, static_cast<T*>(to)});
    }
    ForPacks(stream, to_desc, ScatterPack<T, To>{packs, source, static_cast<To*>(to)});
  });
}

}  // namespace hp::cuda

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
  Divisor packs;                  ///< of a pixel
  ChannelPlaces groups;           ///< in packs
  int64_t image, channel, pixel;  ///< elements of the other tensor from one to the next
  int64_t pixels;                 ///< of an image

  GroupPacks(const TensorDesc& other, int64_t groups)
      : packs(other.shape[1] / kWidth),
        groups{Divisor(other.shape[1] / groups / kWidth), other.shape[0] * other.shape.count(2)},
        image(other.shape.count(1)),
        channel(LiesNhwc(other) ? 1 : other.shape.count(2)),
        pixel(LiesNhwc(other) ? other.shape[1] : 1),
        pixels(other.shape.count(2)) {
    CHECK(other.shape[1] % (groups * kWidth) == 0) << "[" << other.shape << "] in " << groups << " groups";
  }

  /// Offsets of pack i of an image in both tensors.
  struct Places {
    int64_t in_groups, in_other;
  };
  HP_HOST_DEVICE Places At(int64_t n, uint32_t i) const {
    uint32_t pack;
    const uint32_t p = packs.Quotient(i, &pack);
    return {kWidth * groups.At(n * pixels + p, pack), n * image + p * pixel + kWidth * int64_t{pack} * channel};
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
    for (int k = 0; k < kPackWidth<T>; ++k) pack.of[k] = ToFloat(from[at.in_other + k * g.channel]);
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
    for (int k = 0; k < kPackWidth<T>; ++k) Put(pack.of[k], to + at.in_other + k * g.channel);
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

/// Calls visit with the types of the tensor in groups and of the other one, which are equal, or the other is float32.
template <typename Visit>
void WithTypes(ElementType element, ElementType other, const Visit& visit) {
  CHECK(other == element || other == ElementType::kFloat32) << "two types of 16 bits";
  WithElementType(element, [&](auto type) {
    if (other == element) return visit(type, type);
    visit(type, TypeTag<float>());
  });
}

}  // namespace

void CopyToGroups(const GpuStream& stream, const TensorDesc& from_desc, const void* from, ElementType element,
                  int64_t groups, void* to) {
  WithTypes(element, from_desc.element, [&](auto type, auto from_type) {
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
  WithTypes(element, to_desc.element, [&](auto type, auto to_type) {
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

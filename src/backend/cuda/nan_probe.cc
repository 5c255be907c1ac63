#include "backend/cuda/nan_probe.h"

#include "tensor/buffer.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace hp {
namespace {

constexpr size_t kLookedAt = 64 << 10;  // bytes at each place

/// All bits are set: a NaN in every element type.
constexpr std::byte kNan{0xFF};

/// Whether the `bits` of exponent are all set, and some of fraction.
bool IsNan(uint32_t word, uint32_t exponent, uint32_t fraction) {
  return (word & exponent) == exponent && (word & fraction) != 0;
}

bool AreNans(std::span<const std::byte> bytes, ElementType element) {
  const size_t size = BytesOf(element);
  for (size_t i = 0; i + size <= bytes.size(); i += size) {
    uint32_t word = 0;
    std::copy_n(&bytes[i], size, reinterpret_cast<std::byte*>(&word));
    const bool is_nan = element == ElementType::kFloat32    ? IsNan(word, 0x7F800000, 0x007FFFFF)
                        : element == ElementType::kBFloat16 ? IsNan(word, 0x7F80, 0x007F)
                                                            : IsNan(word, 0x7C00, 0x03FF);
    if (!is_nan) return false;
  }
  return true;
}

}  // namespace

StatusOr<bool> HandsNansOn(Gpu* gpu, GpuConvolution* convolution, const ConvolutionCounts& counts,
                           ElementType element) {
  const size_t size = BytesOf(element);
  const auto bytes = [size](int64_t count) { return static_cast<size_t>(count) * size; };
  HP_ASSIGN_OR_RETURN(const Buffer x, gpu->Allocate(bytes(counts.x)));
  HP_ASSIGN_OR_RETURN(const Buffer weights, gpu->Allocate(bytes(counts.weights)));
  HP_ASSIGN_OR_RETURN(const Buffer bias, gpu->Allocate(bytes(counts.bias)));
  HP_ASSIGN_OR_RETURN(const Buffer y, gpu->Allocate(bytes(counts.y)));
  HP_ASSIGN_OR_RETURN(const Buffer workspace, gpu->Allocate(convolution->workspace_bytes()));
  const std::vector<std::byte> nans(weights.bytes(), kNan);
  HP_RETURN_IF_ERROR(gpu->CopyNow(weights.data(), nans.data(), nans.size()));
  convolution->Forward(x.data(), weights.data(), bias.data(), y.data(), workspace.data());
  HP_RETURN_IF_ERROR(gpu->Synchronize());
  std::vector<std::byte> seen(std::min(kLookedAt, y.bytes()));
  for (const size_t at : {size_t{0}, (y.bytes() - seen.size()) / 2 / size * size, y.bytes() - seen.size()}) {
    HP_RETURN_IF_ERROR(gpu->CopyNow(seen.data(), y.data() + at, seen.size()));
    if (!AreNans(seen, element)) return false;
  }
  return true;
}

}  // namespace hp

// Floats of the bytes of records: each is read once and written once, and the mean comes from the cache.
#include "backend/cuda/divisor.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/rows.h"

namespace hp::cuda {
namespace {

/// Writes value `w` of line `line` = (row * C + c) * H + h.
struct FloatOfByte {
  RawImageRule rule;
  Divisor channels, height;
  const RawImage* images;
  const uint8_t* bytes;
  float* out;

  HP_HOST_DEVICE void operator()(int64_t line, uint32_t w) const {
    uint32_t h, c;
    const uint32_t row = channels.Quotient(height.Quotient(static_cast<uint32_t>(line), &h), &c);
    out[line * rule.width + w] = rule.ValueOf(images[row], bytes + row * rule.values(), c, h, w);
  }
};

}  // namespace

void FloatImages(const GpuStream& stream, const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out) {
  const auto* const images = reinterpret_cast<const RawImage*>(raw);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(images + rows);
  const int64_t lines = rows * rule.channels * rule.height;
  CHECK_LT(lines, int64_t{1} << 31);
  ForEachInRows(stream, lines, rule.width,
                FloatOfByte{rule, Divisor(rule.channels), Divisor(rule.height), images, bytes, out});
}

}  // namespace hp::cuda

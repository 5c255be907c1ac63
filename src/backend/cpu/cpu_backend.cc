#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/update.h"

#include <algorithm>

namespace hp {

void CpuBackend::UpdateParams(std::span<const UpdatePart> parts) {
  for (const UpdatePart& p : parts) hp::UpdateParams(p);
}

void CpuBackend::SumsOfSquares(std::span<const SquaresPart> parts) {
  for (const SquaresPart& p : parts) *p.sum = SumOfSquares(p.values, p.n);
}

void CpuBackend::FloatImages(const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out) {
  const auto* const images = reinterpret_cast<const RawImage*>(raw);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(images + rows);
  ForItems(rows, rows * rule.values(), [&](int64_t row) {
    float* to = out + row * rule.values();
    for (int64_t c = 0; c < rule.channels; ++c) {
      for (int64_t h = 0; h < rule.height; ++h) {
        for (int64_t w = 0; w < rule.width; ++w)
          *to++ = rule.ValueOf(images[row], bytes + row * rule.values(), c, h, w);
      }
    }
  });
}

void CpuBackend::Clear(std::span<float> values) {
  ForChunks(static_cast<int64_t>(values.size()),
            [&](int64_t begin, int64_t end) { std::fill(values.begin() + begin, values.begin() + end, 0.0f); });
}

std::unique_ptr<Backend> MakeCpuBackend(ElementType factors) {
  return std::make_unique<CpuBackend>(CpuMultipliesBFloat16() ? factors : ElementType::kFloat32);
}

bool CpuMultipliesBFloat16() { return onednn::MultipliesBFloat16(); }

std::string CpuLacksBFloat16() {
  if (CpuMultipliesBFloat16()) return "";
  return "the processors have neither AVX512_BF16 nor AMX (" + onednn::DescribeInstructions() + ")";
}

}  // namespace hp

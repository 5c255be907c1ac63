#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/update.h"

namespace hp {

void CpuBackend::UpdateParams(std::span<const UpdatePart> parts) {
  for (const UpdatePart& p : parts) hp::UpdateParams(p);
}

void CpuBackend::SumsOfSquares(std::span<const SquaresPart> parts) {
  for (const SquaresPart& p : parts) *p.sum = SumOfSquares(p.values, p.n);
}

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace hp

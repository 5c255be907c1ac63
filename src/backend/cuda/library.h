#pragma once

#include "backend/backend.h"
#include "backend/cuda/gpu.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hp {

/// C [m, n] = A B, or C += A B; row-major. A and B are of the library's element type, C is float32. A is [m, k], or [k,
/// m] if transpose_a; B is [k, n], or [n, k] if transpose_b.
struct GpuGemmDesc {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  ///< elements from one row to the next
  bool bias = false;                                 ///< bias [n] is added to each row of C
};

/// A matrix product of fixed sizes. Has no state that a call changes.
class GpuGemm {
 public:
  virtual ~GpuGemm() = default;
  virtual size_t workspace_bytes() const = 0;
  /// @param add C += A B instead of C = A B. @param bias null unless the desc says so.
  virtual void Run(const void* a, const void* b, const float* bias, bool add, float* c, std::byte* workspace) = 0;
};

/// A convolution of fixed sizes: x and y are NHWC, the weights [O, kH, kW, C / group], the bias [O]; all, and their
/// gradients, of the library's element type.
class GpuConvolution {
 public:
  virtual ~GpuConvolution() = default;
  /// For any of the three.
  virtual size_t workspace_bytes() const = 0;
  /// @param bias null: none.
  virtual void Forward(const void* x, const void* weights, const void* bias, void* y, std::byte* workspace) = 0;
  virtual void BackwardInput(const void* dy, const void* weights, void* dx, std::byte* workspace) = 0;
  virtual void BackwardWeights(const void* x, const void* dy, void* d_weights, std::byte* workspace) = 0;
};

/// What NVIDIA's libraries do for us, on the compute stream of one GPU; MakeGpuLibrary's is cuBLASLt and cuDNN, tests
/// have one that computes on the host.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  /// Of the factors of its products.
  virtual ElementType element() const = 0;
  /// @return kFailedPrecondition: the library has no way to compute it.
  virtual StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) = 0;
  /// @param in the input's shape [N, C, H, W]. Errors as above.
  virtual StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) = 0;
};

/// How products are computed; sums are float32 in any case.
enum class GpuMath {
  kFloat32,   ///< as on the host
  kTf32,      ///< factors rounded to 10 bits
  kBFloat16,  ///< factors of 16 bits, of which 7 are the fraction's
  kFloat16,   ///< factors of 16 bits, of which 10 are the fraction's; from 6e-8 to 65504
};

/// Of the factors in memory.
inline ElementType ElementOf(GpuMath math) {
  if (math == GpuMath::kBFloat16) return ElementType::kBFloat16;
  return math == GpuMath::kFloat16 ? ElementType::kFloat16 : ElementType::kFloat32;
}

/// cuDNN and cuBLASLt on `gpu`, which must outlive it. @return kFailedPrecondition: a library can't be initialised.
StatusOr<std::unique_ptr<GpuLibrary>> MakeGpuLibrary(Gpu* gpu, GpuMath math);

}  // namespace hp

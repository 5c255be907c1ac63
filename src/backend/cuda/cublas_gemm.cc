// Algorithms are chosen by cuBLASLt's heuristics when the product is made: one for factors aligned to 16 bytes and one
// for any alignment, since columns of gathered inputs begin anywhere; Run takes the first if all addresses allow it.
// Split sums are combined in a fixed order, so equal arguments give equal bits. The bias is part of the product where
// cuBLASLt can do that for both alignments, else a kernel adds it.
#include "backend/cuda/cublas_gemm.h"

#include "backend/cuda/add_bias.h"
#include "backend/cuda/cublas_api.h"
#include "base/format.h"

#include <algorithm>
#include <array>

namespace hp {
namespace {

/// As much as cuBLAS itself takes on Hopper.
constexpr uint64_t kMostWorkspaceBytes = uint64_t{32} << 20;

/// What factors may be aligned to: there is an algorithm for each. Columns of gathered inputs begin anywhere.
std::array<uint32_t, 2> Alignments(ElementType element) { return {16, static_cast<uint32_t>(BytesOf(element))}; }

cudaDataType_t CublasTypeOf(ElementType element) {
  if (element == ElementType::kBFloat16) return CUDA_R_16BF;
  return element == ElementType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

std::string Describe(const GpuGemmDesc& d) {
  return Format("product [%lld x %lld] = [%lld x %lld]%s [%lld x %lld]%s%s", static_cast<long long>(d.m),
                static_cast<long long>(d.n), static_cast<long long>(d.m), static_cast<long long>(d.k),
                d.transpose_a ? " (transposed)" : "", static_cast<long long>(d.k), static_cast<long long>(d.n),
                d.transpose_b ? " (transposed)" : "", d.bias ? " + bias" : "");
}

/// cuBLAS's descriptions of a product. It thinks in columns, where a row-major matrix is its transpose: C^T = B^T A^T,
/// so that its first operand is our B. Values without resources; made for each call, because they hold the bias.
class Descriptions {
 public:
  /// @param bias null: none is added by cuBLAS. Its alignment is what is described, where it isn't read.
  Descriptions(const CublasApi& api, const GpuGemmDesc& desc, GpuMath math, const void* bias)
      : api_(api), factors_(CublasTypeOf(ElementOf(math))) {
    Try(api_.init_product(&product_, sizeof(product_),
                          math == GpuMath::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    Set(CUBLASLT_MATMUL_DESC_TRANSA, desc.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, desc.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (bias != nullptr) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    }
    Try(Layout(&first_, desc.k, desc.n, desc.transpose_b, desc.b_stride));
    Try(Layout(&second_, desc.m, desc.k, desc.transpose_a, desc.a_stride));
    Try(api_.init_layout(&result_, sizeof(result_), CUDA_R_32F, desc.n, desc.m, desc.c_stride));
  }

  cublasStatus_t status() const { return status_; }
  cublasLtMatmulDesc_t product() { return &product_; }
  cublasLtMatrixLayout_t first() { return &first_; }
  cublasLtMatrixLayout_t second() { return &second_; }
  cublasLtMatrixLayout_t result() { return &result_; }

 private:
  /// A row-major [rows, columns], or its transpose stored so.
  cublasStatus_t Layout(cublasLtMatrixLayoutOpaque_t* layout, int64_t rows, int64_t columns, bool transposed,
                        int64_t stride) const {
    return api_.init_layout(layout, sizeof(*layout), factors_, transposed ? rows : columns, transposed ? columns : rows,
                            stride);
  }
  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t name, const T& value) {
    Try(api_.set_product(&product_, name, &value, sizeof(value)));
  }
  void Try(cublasStatus_t status) {
    if (status_ == CUBLAS_STATUS_SUCCESS) status_ = status;
  }

  const CublasApi& api_;
  const cudaDataType_t factors_;
  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t first_, second_, result_;
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
};

/// The way that cuBLASLt's heuristics like best for factors of this alignment; sum and bias are float32. Parts of a sum
/// that are computed at the same time come together in a step of their own, in a fixed order.
Status Choose(const CublasApi& api, cublasLtHandle_t handle, const GpuGemmDesc& desc, GpuMath math, bool with_bias,
              uint32_t alignment, cublasLtMatmulHeuristicResult_t* result) {
  const uint32_t of_floats = std::max<uint32_t>(alignment, sizeof(float));
  Descriptions descriptions(api, desc, math, with_bias ? reinterpret_cast<const void*>(uintptr_t{of_floats}) : nullptr);
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasStatus_t status = descriptions.status();
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = api.set_preference(&preference, name, &value, sizeof(value));
  };
  if (status == CUBLAS_STATUS_SUCCESS) status = api.init_preference(&preference, sizeof(preference));
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_floats);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_floats);
  int found = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = api.choose(handle, descriptions.product(), descriptions.first(), descriptions.second(),
                        descriptions.result(), descriptions.result(), &preference, 1, result, &found);
  }
  if (status == CUBLAS_STATUS_SUCCESS) status = found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : result->state;
  return CublasStatus(status, Describe(desc));
}

class CublasGemm final : public GpuGemm {
 public:
  CublasGemm(Gpu* gpu, const CublasApi& api, cublasLtHandle_t handle, GpuMath math, const GpuGemmDesc& desc)
      : gpu_(gpu), api_(api), handle_(handle), math_(math), desc_(desc) {}

  /// With the bias in the product where that can be done for every alignment, else by a kernel.
  Status Choose() {
    bias_fused_ = desc_.bias;
    if (desc_.bias && ChooseAll().ok()) return OkStatus();
    bias_fused_ = false;
    return ChooseAll();
  }

  size_t workspace_bytes() const override { return std::max(ways_[0].workspaceSize, ways_[1].workspaceSize); }

  void Run(const void* a, const void* b, const float* bias, bool add, float* c, std::byte* workspace) override {
    Descriptions descriptions(api_, desc_, math_, bias_fused_ ? bias : nullptr);
    const auto& way = ways_[Aligned(a) && Aligned(b) && Aligned(c) && (!bias_fused_ || Aligned(bias)) ? 0 : 1];
    const float one = 1, beta = add ? 1 : 0;
    const GpuStream stream = gpu_->stream(Device::kCompute);
    cublasStatus_t status = descriptions.status();
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = api_.multiply(handle_, descriptions.product(), &one, b, descriptions.first(), a, descriptions.second(),
                             &beta, c, descriptions.result(), c, descriptions.result(), &way.algo, workspace,
                             way.workspaceSize, static_cast<cudaStream_t>(stream.cuda));
    }
    if (status != CUBLAS_STATUS_SUCCESS) return gpu_->Fail(CublasStatus(status, Describe(desc_)));
    if (bias != nullptr && !bias_fused_)
      cuda::AddBias(stream, desc_.m, desc_.n, desc_.c_stride, bias, ElementType::kFloat32, c);
  }

 private:
  static bool Aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

  Status ChooseAll() {
    const std::array<uint32_t, 2> alignments = Alignments(ElementOf(math_));
    for (size_t i = 0; i < alignments.size(); ++i) {
      HP_RETURN_IF_ERROR(hp::Choose(api_, handle_, desc_, math_, bias_fused_, alignments[i], &ways_[i]));
    }
    return OkStatus();
  }

  Gpu* const gpu_;
  const CublasApi& api_;
  const cublasLtHandle_t handle_;
  const GpuMath math_;
  const GpuGemmDesc desc_;
  bool bias_fused_ = false;
  std::array<cublasLtMatmulHeuristicResult_t, 2> ways_ = {};
};

}  // namespace

Status CublasStatus(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return OkStatus();
  HP_ASSIGN_OR_RETURN(const CublasApi* api, LoadCublas());
  return FailedPrecondition("cuBLAS: %s: %s", what.c_str(), api->status_string(status));
}

StatusOr<std::unique_ptr<GpuGemm>> MakeCublasGemm(Gpu* gpu, cublasLtHandle_t handle, GpuMath math,
                                                  const GpuGemmDesc& desc) {
  HP_ASSIGN_OR_RETURN(const CublasApi* api, LoadCublas());
  auto gemm = std::make_unique<CublasGemm>(gpu, *api, handle, math, desc);
  HP_RETURN_IF_ERROR(gemm->Choose());
  return std::unique_ptr<GpuGemm>(std::move(gemm));
}

}  // namespace hp

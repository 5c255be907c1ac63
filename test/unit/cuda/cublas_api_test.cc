#include "backend/cuda/cublas_api.h"

#include "backend/cuda/cublas_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace hp {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string MappedFiles() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

TEST(CublasApiTest, IsLoadedWhenItIsAskedFor) {
  EXPECT_THAT(MappedFiles(), Not(HasSubstr("libcublasLt")));
  const StatusOr<const CublasApi*> api = LoadCublas();
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_THAT(MappedFiles(), HasSubstr("libcublasLt"));
  EXPECT_EQ(*LoadCublas(), *api) << "once";
  cublasLtMatmulDescOpaque_t product;
  EXPECT_EQ((*api)->init_product(&product, sizeof(product), CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  EXPECT_EQ((*api)->set_product(&product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
            CUBLAS_STATUS_SUCCESS);
  cublasLtMatrixLayoutOpaque_t layout;
  EXPECT_EQ((*api)->init_layout(&layout, sizeof(layout), CUDA_R_32F, 2, 3, 2), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceOpaque_t preference;
  EXPECT_EQ((*api)->init_preference(&preference, sizeof(preference)), CUBLAS_STATUS_SUCCESS);
  const uint64_t bytes = 1 << 20;
  EXPECT_EQ((*api)->set_preference(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(CublasStatus(CUBLAS_STATUS_NOT_SUPPORTED, "a product").message(),
            std::string("cuBLAS: a product: ") + (*api)->status_string(CUBLAS_STATUS_NOT_SUPPORTED));
}

}  // namespace
}  // namespace hp

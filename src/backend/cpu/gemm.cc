#include "backend/cpu/gemm.h"

#include "glog/logging.h"
#include <dnnl.hpp>

#include <new>

namespace hp {

void Gemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride,
          const float* b, int64_t b_stride, bool add, float* c, int64_t c_stride) {
  const dnnl::status status =
      dnnl::sgemm(transpose_a, transpose_b, m, n, k, 1.0f, a, a_stride, b, b_stride, add ? 1.0f : 0.0f, c, c_stride);
  if (status == dnnl::status::out_of_memory) throw std::bad_alloc();
  CHECK(status == dnnl::status::success) << "sgemm " << m << " x " << n << " x " << k;
}

}  // namespace hp

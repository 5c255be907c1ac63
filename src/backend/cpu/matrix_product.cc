#include "backend/cpu/matrix_product.h"

namespace hp::onednn {
namespace {

constexpr auto kType = dnnl::memory::data_type::f32;

}  // namespace

MatrixProduct::MatrixProduct(const Context& context, int64_t m, int64_t n, int64_t k, int64_t a_stride,
                             int64_t b_stride, bool add) {
  dnnl::primitive_attr attributes = UserScratchpad();
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::memory::desc a({m, k}, kType, dnnl::memory::dims{a_stride, 1});
  const dnnl::memory::desc b({k, n}, kType, dnnl::memory::dims{1, b_stride});
  const dnnl::memory::desc c({m, n}, kType, dnnl::memory::dims{n, 1});
  primitive_desc_ = {{a, b, c}, attributes, context.engine};
  primitive_ = dnnl::matmul(primitive_desc_);
}

void MatrixProduct::Run(const Context& context, const float* a, const float* b, float* c, std::byte* scratch) const {
  context.Execute(primitive_, {{DNNL_ARG_SRC, context.Memory(primitive_desc_.src_desc(), a)},
                               {DNNL_ARG_WEIGHTS, context.Memory(primitive_desc_.weights_desc(), b)},
                               {DNNL_ARG_DST, context.Memory(primitive_desc_.dst_desc(), c)},
                               {DNNL_ARG_SCRATCHPAD, context.Memory(primitive_desc_.scratchpad_desc(), scratch)}});
}

}  // namespace hp::onednn

#include "backend/cpu/matrix_product.h"

namespace hp::onednn {
MatrixProduct::MatrixProduct(const Context& context, int64_t m, int64_t n, int64_t k, const Factor& a, const Factor& b,
                             bool add) {
  dnnl::primitive_attr attributes = UserScratchpad();
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const auto describe = [](int64_t rows, int64_t columns, const Factor& of) {
    return dnnl::memory::desc({rows, columns}, TypeOf(of.element), dnnl::memory::dims{of.row_stride, of.column_stride});
  };
  primitive_desc_ = {{describe(m, k, a), describe(k, n, b), describe(m, n, {n, 1})}, attributes, context.engine};
  primitive_ = dnnl::matmul(primitive_desc_);
}

void MatrixProduct::Run(const Context& context, const void* a, const void* b, float* c, std::byte* scratch) const {
  context.Execute(primitive_, {{DNNL_ARG_SRC, context.Memory(primitive_desc_.src_desc(), a)},
                               {DNNL_ARG_WEIGHTS, context.Memory(primitive_desc_.weights_desc(), b)},
                               {DNNL_ARG_DST, context.Memory(primitive_desc_.dst_desc(), c)},
                               {DNNL_ARG_SCRATCHPAD, context.Memory(primitive_desc_.scratchpad_desc(), scratch)}});
}

}  // namespace hp::onednn

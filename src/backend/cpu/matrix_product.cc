#include "backend/cpu/matrix_product.h"

#include <omp.h>

namespace hp::onednn {
namespace {

/// While it lives, oneDNN makes primitives for the calling thread alone.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

}  // namespace

MatrixProduct::MatrixProduct(const Context& context, const Sizes& sizes, const Factor& a, const Factor& b,
                             const Target& c) {
  dnnl::primitive_attr attributes = UserScratchpad();
  if (c.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const auto describe = [](int64_t rows, int64_t columns, const Factor& of) {
    const dnnl::memory::dims dims = {rows, columns};
    if (of.packed) return dnnl::memory::desc(dims, TypeOf(of.element), dnnl::memory::format_tag::any);
    return dnnl::memory::desc(dims, TypeOf(of.element), dnnl::memory::dims{of.row_stride, of.column_stride});
  };
  const auto [m, n, k] = sizes;
  primitive_desc_ = {
      {describe(m, k, a), describe(k, n, b), describe(m, n, {c.row_stride, 1})}, attributes, context.engine};
  primitive_ = dnnl::matmul(primitive_desc_);
}

MatrixProduct MatrixProduct::OfOneThread(const Context& context, const Sizes& sizes, const Factor& a, const Factor& b,
                                         const Target& c) {
  const OneThread alone;
  return {context, sizes, a, b, c};
}

void MatrixProduct::Run(const Context& context, const void* a, const void* b, float* c, std::byte* scratch) const {
  context.Execute(primitive_, {{DNNL_ARG_SRC, context.Memory(primitive_desc_.src_desc(), a)},
                               {DNNL_ARG_WEIGHTS, context.Memory(primitive_desc_.weights_desc(), b)},
                               {DNNL_ARG_DST, context.Memory(primitive_desc_.dst_desc(), c)},
                               {DNNL_ARG_SCRATCHPAD, context.Memory(primitive_desc_.scratchpad_desc(), scratch)}});
}

}  // namespace hp::onednn

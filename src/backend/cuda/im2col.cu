#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/rows.h"
#include "backend/im2col_op.h"

namespace hp::cuda {
namespace {

/// A thread for each window of a tap. Reads the image, writes the columns. Of elements that are only moved: T is any
/// type of their size, of which 0 is zero.
template <typename T>
struct UnfoldTap {
  Im2colPlaces p;
  Divisor out_w;
  const T* image;
  T* columns;
  HP_HOST_DEVICE void operator()(int64_t column, uint32_t i) const {
    uint32_t x;
    const uint32_t y = out_w.Quotient(i, &x);
    const Im2colPlaces::Tap tap = p.TapOf(column);
    const int64_t h = y * p.stride_h + tap.top, w = x * p.stride_w + tap.left;
    const bool inside = h >= 0 && h < p.height && w >= 0 && w < p.width;
    columns[column * p.out_h * p.out_w + i] = inside ? image[(tap.plane * p.height + h) * p.width + w] : T{0};
  }
};

/// A thread for each pixel collects from the taps over it, in their order. Reads the columns, writes the image.
template <typename T>
struct FoldPixel {
  Im2colPlaces p;
  Divisor width, stride_h, stride_w;
  const T* columns;
  T* image;
  HP_HOST_DEVICE void operator()(int64_t plane, uint32_t i) const {
    uint32_t column;
    const int64_t h = width.Quotient(i, &column), w = column;
    const int64_t windows = p.out_h * p.out_w;
    float sum = 0;
    for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
      int64_t y;
      if (!WindowOf(h + p.pad_h - kh * p.dilation_h, stride_h, p.out_h, &y)) continue;
      for (int64_t kw = 0; kw < p.kernel_w; ++kw) {
        int64_t x;
        if (!WindowOf(w + p.pad_w - kw * p.dilation_w, stride_w, p.out_w, &x)) continue;
        sum += ToFloat(columns[(plane * p.taps() + kh * p.kernel_w + kw) * windows + y * p.out_w + x]);
      }
    }
    Put(sum, image + plane * p.height * p.width + i);
  }
  /// Whether a window begins at `first` of the padded image, and which.
  HP_HOST_DEVICE static bool WindowOf(int64_t first, const Divisor& stride, int64_t windows, int64_t* window) {
    if (first < 0) return false;
    uint32_t rest;
    *window = stride.Quotient(static_cast<uint32_t>(first), &rest);
    return rest == 0 && *window < windows;
  }
};

struct Im2colCopies {
  GpuContext context;

  void CopyLayout(const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc, void* to) const {
    cuda::CopyLayout(context.stream(), from_desc, from, to_desc, to);
  }
  void Unfold(ElementType element, const Im2colPlaces& p, const void* image, void* columns) const {
    const auto run = [&](auto tag) {
      using T = typename decltype(tag)::Type;
      ForEachInRows(context.stream(), p.planes() * p.taps(), p.out_h * p.out_w,
                    UnfoldTap<T>{p, Divisor(p.out_w), static_cast<const T*>(image), static_cast<T*>(columns)});
    };
    if (BytesOf(element) == sizeof(uint16_t)) {
      run(TypeTag<uint16_t>());
    } else {
      run(TypeTag<uint32_t>());
    }
  }
  void Fold(ElementType element, const Im2colPlaces& p, const void* columns, void* image) const {
    WithElementType(element, [&](auto type) {
      using T = typename decltype(type)::Type;
      ForEachInRows(context.stream(), p.planes(), p.height * p.width,
                    FoldPixel<T>{p, Divisor(p.width), Divisor(p.stride_h), Divisor(p.stride_w),
                                 static_cast<const T*>(columns), static_cast<T*>(image)});
    });
  }
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Im2col(const ConvolutionDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<Im2colOp<Im2colCopies>>(Im2colCopies{context_}, desc, in[0]));
}

}  // namespace hp::cuda

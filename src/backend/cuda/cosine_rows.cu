#include "backend/backend.h"
#include "backend/cuda/cosine_rows.h"
#include "backend/cuda/element.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/rows.h"

#include <cmath>

namespace hp::cuda {
namespace {

/// Reads two rows of a matrix each and adds up their products in double.
struct RowDots {
  using Value = double;
  const float *a, *b;
  int64_t width;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const {
    return static_cast<double>(a[row * width + i]) * b[row * width + i];
  }
  HP_HOST_DEVICE Value Combine(const Value& x, const Value& y) const { return x + y; }
};

/// Reads x, writes the inverse norm of each row.
struct RowNorms : RowDots {
  float* inverse_norms;
  HP_HOST_DEVICE void Finish(int64_t row, const Value& squares) const { inverse_norms[row] = Inverse(squares); }

  /// A NaN stays.
  HP_HOST_DEVICE static float Inverse(double squares) {
    constexpr double kLeast = CosineProductDesc::kLeastNorm;
    const double norm = sqrt(squares);
    return static_cast<float>(1 / (norm < kLeast ? kLeast : norm));
  }
};

/// And divides the row, which is in the cache.
struct NormaliseRow : RowNorms {
  float* x;
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value& squares) const {
    x[row * width + i] *= Inverse(squares);
  }
};

struct CopyColumn {
  const float* from;
  int64_t from_stride;
  float* to;
  int64_t to_stride;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    to[row * to_stride + i] = from[row * from_stride + i];
  }
};

template <typename T>
struct ScaleColumn {
  const float *factors, *from;
  int64_t columns;
  T* to;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    Put(factors[i] * from[row * columns + i], to + row * columns + i);
  }
};

/// Reads x and dx twice, the second time from the cache, and writes dx.
struct ProjectRow : RowDots {
  const float *inverse_norms, *kept;
  bool unit;
  float* dx;
  HP_HOST_DEVICE void Finish(int64_t, const Value&) const {}
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value& dot) const {
    const double inverse = inverse_norms[row], before = kept == nullptr ? 0 : kept[row];
    const auto along = static_cast<float>(unit ? dot : (dot - before) * inverse * inverse);
    float* const at = dx + row * width + i;
    *at = inverse_norms[row] * (*at - along * a[row * width + i]);
  }
};

/// Reads x and dx, writes dx times the norm and the dot product of that with x.
struct KeepRow : RowDots {
  const float* inverse_norms;
  float *dx, *kept;
  HP_HOST_DEVICE void Finish(int64_t row, const Value& dot) const {
    kept[row] = static_cast<float>(dot / inverse_norms[row]);
  }
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value&) const { dx[row * width + i] /= inverse_norms[row]; }
};

}  // namespace

void InverseNorms(const GpuStream& stream, int64_t rows, int64_t width, const float* x, float* inverse_norms) {
  ReduceRows(stream, rows, width, RowNorms{{x, x, width}, inverse_norms});
}

void NormaliseRows(const GpuStream& stream, int64_t rows, int64_t width, float* x, float* inverse_norms) {
  ReduceRows(stream, rows, width, NormaliseRow{{{x, x, width}, inverse_norms}, x});
}

void CopyColumns(const GpuStream& stream, int64_t rows, int64_t width, const float* from, int64_t from_stride,
                 float* to, int64_t to_stride) {
  ForEachInRows(stream, rows, width, CopyColumn{from, from_stride, to, to_stride});
}

void ScaleColumns(const GpuStream& stream, int64_t rows, int64_t columns, const float* factors, const float* from,
                  ElementType element, void* to) {
  WithElementType(element, [&](auto type) {
    using T = typename decltype(type)::Type;
    ForEachInRows(stream, rows, columns, ScaleColumn<T>{factors, from, columns, static_cast<T*>(to)});
  });
}

void ProjectOnUnitRows(const GpuStream& stream, int64_t rows, int64_t width, const float* unit,
                       const float* inverse_norms, float* dx) {
  ReduceRows(stream, rows, width, ProjectRow{{unit, dx, width}, inverse_norms, nullptr, true, dx});
}

void BeginAddedProjection(const GpuStream& stream, int64_t rows, int64_t width, const float* x,
                          const float* inverse_norms, float* dx, float* kept) {
  ReduceRows(stream, rows, width, KeepRow{{x, dx, width}, inverse_norms, dx, kept});
}

void ProjectOnRows(const GpuStream& stream, int64_t rows, int64_t width, const float* x, const float* inverse_norms,
                   const float* kept, float* dx) {
  ReduceRows(stream, rows, width, ProjectRow{{x, dx, width}, inverse_norms, kept, false, dx});
}

}  // namespace hp::cuda

#include "backend/cuda/add_bias.h"
#include "backend/cuda/launch.h"

#include <algorithm>

namespace hp::cuda {
namespace {

constexpr int64_t kRows = 16;  // of a thread

/// Element i = (strip of rows, column), so that a thread divides once and reads its bias once. y is read and written
/// once, neighbouring columns by neighbouring threads.
struct AddToStrip {
  const float* bias;
  int64_t rows, columns, stride;
  float* y;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t strip = i / columns, column = i - strip * columns;
    const int64_t begin = strip * kRows, end = begin + kRows < rows ? begin + kRows : rows;
    const float value = bias[column];
    for (int64_t row = begin; row < end; ++row) y[row * stride + column] += value;
  }
};

}  // namespace

void AddBias(const GpuStream& stream, int64_t rows, int64_t columns, int64_t stride, const float* bias, float* y) {
  ForEach(stream, (rows + kRows - 1) / kRows * columns, AddToStrip{bias, rows, columns, stride, y});
}

}  // namespace hp::cuda

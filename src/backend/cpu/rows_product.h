#pragma once

#include <cstdint>

namespace hp {

/// Rows of a matrix of weights, read where they are: row i is the `columns` floats at
/// data + (classes == nullptr ? i : classes[i]) * stride.
struct WeightRows {
  const float* data = nullptr;
  int64_t stride = 0, columns = 0;
  const int64_t* classes = nullptr;  ///< [count], those of a sample; null: neighbours
  int64_t count = 0;

  const float* Row(int64_t i) const { return data + (classes == nullptr ? i : classes[i]) * stride; }
};

/// Floats of PackFeatures' copy of features [rows, columns].
int64_t PackedFeatures(int64_t rows, int64_t columns);

/// Writes columns [first, first + columns) of the copy of features that MultiplyRows reads, from x [rows, columns].
/// A copy of all columns is a product's; all threads of the team.
void PackFeatures(int64_t rows, int64_t columns, const float* x, int64_t first, float* packed);

/// y[r][i] = the sum over k of x[r][k] w_i[k], for r < rows and i < w.count; with `inverse_norms` [w.count] not null,
/// which is overwritten with 1 / |w_i|, times that. By all threads of the team, inside a parallel region by the calling
/// one alone. Each element is summed over ascending k, so its bits do not depend on threads and neighbours.
/// @param packed PackFeatures of all columns. @param y_stride floats from one row of y to the next.
void MultiplyRows(int64_t rows, const float* packed, const WeightRows& w, float* inverse_norms, float* y,
                  int64_t y_stride);

/// d_x[r][k] = the sum over i of dy[r][i] w_i[k], with `inverse_norms` [w.count] not null of dy[r][i] inverse_norms[i]
/// w_i[k], for r < rows and k < w.columns. Threads as MultiplyRows. Each element is summed over ascending i, the same
/// number of them at a time, so its bits do not depend on threads.
void SumRows(int64_t rows, const float* dy, int64_t dy_stride, const WeightRows& w, const float* inverse_norms,
             float* d_x, int64_t d_x_stride);

}  // namespace hp

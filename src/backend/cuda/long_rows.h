#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Reductions of a few rows of very many elements, such as the scores of a million classes: a block of threads for each
// row (ReduceRows) would leave most of a GPU idle. Only for .cu files.
namespace hp::cuda {

/// How rows are cut into pieces, a block of threads for each: a function of their number and width alone, and so is the
/// order in which elements are combined.
struct RowPieces {
  /// Of rows together: as many blocks as a large GPU runs at a time, 8 on each of 132 multiprocessors.
  static constexpr int64_t kMostPieces = 1056;
  static constexpr int64_t kLeastWidth = 16384;  ///< of a piece: 64 elements for each thread
  static constexpr size_t kValueBytes = 16;      ///< the most that a reduction's value takes

  int64_t rows = 0, width = 0, pieces = 1;  ///< of each row

  RowPieces(int64_t rows, int64_t width)
      : rows(rows),
        width(width),
        pieces(std::max<int64_t>(std::min(width / kLeastWidth, kMostPieces / std::max<int64_t>(rows, 1)), 1)) {}

  bool cut() const { return pieces > 1; }
  int64_t piece_width() const { return (width + pieces - 1) / pieces; }
  /// Of scratch: a value for each piece, and one for each row.
  size_t scratch_bytes() const { return cut() ? static_cast<size_t>(rows * (pieces + 1)) * kValueBytes : 0; }
};

/// Reduction (launch.h) of the pieces of rows: row = (row of Of, piece).
template <typename Of>
struct PieceReduction {
  using Value = typename Of::Value;
  Of of;
  int64_t width, pieces, piece_width;
  Value* values;
  struct Row {
    const Of& of;
    int64_t row, begin, width;
    HP_HOST_DEVICE Value operator()(int64_t i) const { return of.Map(row, begin + i); }
  };
  HP_HOST_DEVICE Row RowAt(int64_t item) const {
    const int64_t row = item / pieces, begin = (item - row * pieces) * piece_width, left = width - begin;
    return {of, row, begin, left < piece_width ? (left < 0 ? 0 : left) : piece_width};
  }
  HP_HOST_DEVICE Value Identity() const { return of.Identity(); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return of.Combine(a, b); }
  HP_HOST_DEVICE void Finish(int64_t item, const Value& value) const { values[item] = value; }
};

/// The pieces' values combined, and the row finished.
template <typename Of>
struct CombinePieces {
  using Value = typename Of::Value;
  Of of;
  int64_t pieces;
  const Value* values;
  Value* of_rows;
  HP_HOST_DEVICE Value Identity() const { return of.Identity(); }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t piece) const { return values[row * pieces + piece]; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return of.Combine(a, b); }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& value) const {
    of_rows[row] = value;
    of.Finish(row, value);
  }
};

template <typename Of>
struct EachOfRow {
  Of of;
  const typename Of::Value* of_rows;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const { of.Each(row, i, of_rows[row]); }
};

/// What ReduceRows does with even rows, in three kernels where rows are cut. @param scratch [scratch_bytes()], aligned
/// to 16 bytes.
template <typename Of>
void ReduceLongRows(const GpuStream& stream, const RowPieces& rows, const Of& of, std::byte* scratch) {
  using Value = typename Of::Value;
  static_assert(sizeof(Value) <= RowPieces::kValueBytes);
  if (!rows.cut()) return ReduceRows(stream, rows.rows, rows.width, of);
  auto* const values = reinterpret_cast<Value*>(scratch);
  Value* const of_rows = values + rows.rows * rows.pieces;
  ReduceRows(stream, rows.rows * rows.pieces, 0,
             PieceReduction<Of>{of, rows.width, rows.pieces, rows.piece_width(), values});
  ReduceRows(stream, rows.rows, rows.pieces, CombinePieces<Of>{of, rows.pieces, values, of_rows});
  if constexpr (HasEach<Of>) ForEachInRows(stream, rows.rows, rows.width, EachOfRow<Of>{of, of_rows});
}

}  // namespace hp::cuda

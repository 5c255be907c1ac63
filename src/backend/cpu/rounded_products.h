#pragma once

#include "backend/cpu/matrix_product.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pair_format.h"
#include "backend/op.h"
#include "base/bfloat16.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hp::onednn {

/// The three products of an inner product y = x W^T with factors of bfloat16 and sums of float32, over some columns of
/// W [outputs, K] and the x [rows, columns] that belong to them. W is kept in two formats more, which an update in
/// pieces writes on its way (PackedParams::RefillRows): rows of bfloat16 for W x^T, since A needs no packing in oneDNN,
/// and pairs of rows for dy W, of which it is the second factor. A gradient in pieces reads x as pairs of rows as well,
/// packed once for all pieces.
class RoundedProducts {
 public:
  struct Sizes {
    int64_t rows, outputs, k;  ///< k: of W
    int64_t first, columns;    ///< of W, those of x
  };
  /// Outputs whose weight gradients are one product: the rows of a register of AMX. With 8, 24 or 32 an update was no
  /// faster.
  static constexpr int64_t kPieceRows = 16;
  static_assert(kPieceRows % PackedParams::kRowsTogether == 0);

  /// @param add whether Forward adds to what stands there. Throws dnnl::error.
  RoundedProducts(const Context& context, const Sizes& sizes, bool add, bool input_gradient);

  /// Whether oneDNN has kernels for all of it, that read pairs of rows.
  bool usable() const;
  const Sizes& sizes() const { return sizes_; }
  /// Outputs that one Forward computes, but for the last.
  int64_t strip() const { return strip_; }
  /// Of scratch for Forward, for BackwardInput, and of what PackPanels writes.
  size_t forward_bytes() const;
  size_t backward_bytes() const { return backward_ ? backward_->scratch_bytes() : 0; }
  size_t panel_bytes() const;
  /// That it keeps of W in PackedParams: rows of all columns, which products of other columns share, and pairs of its
  /// own.
  size_t rows_bytes() const { return static_cast<size_t>(sizes_.outputs * sizes_.k) * sizeof(BFloat16); }
  size_t pairs_bytes() const { return backward_ ? backward_->b_format().get_size() : 0; }

  // By all threads of the team; done on return. Memory is aligned to 64 bytes. Throw std::bad_alloc without memory.

  /// transposed [outputs, rows] = (transposed +) W x^T, of the outputs from `begin` on, a multiple of strip(), to the
  /// next one. @param x [rows, columns].
  void Forward(const ParamView& weights, int64_t begin, const BFloat16* x, float* transposed, std::byte* scratch) const;
  /// d_x [rows, columns] = d_out W. @param d_out [rows, outputs].
  void BackwardInput(const ParamView& weights, const BFloat16* d_out, float* d_x, std::byte* scratch) const;
  /// @param x [rows, columns].
  void PackPanels(const BFloat16* x, BFloat16* panels) const;

  // On the calling thread alone; several may call them at once.

  /// The gradients of `count` outputs of d_out [rows, outputs], at most kPieceRows, from `begin` on, as the first
  /// factor of AddPiece: rounded, [kPieceRows, rows and some more], zero where there is none. Valid until the thread's
  /// next call.
  const BFloat16* GatherPiece(const float* d_out, int64_t begin, int64_t count) const;
  /// sums [kPieceRows, columns] = (sums +) the piece's d_out^T x.
  void AddPiece(const BFloat16* piece, const BFloat16* panels, bool add, float* sums) const;

 private:
  /// Of x as the second factor of a weight gradient: with fewer pairs than one register has oneDNN does without AMX.
  int64_t PaddedRows() const;
  const BFloat16* RoundedRows(const ParamView& weights) const;
  const BFloat16* Pairs(const ParamView& weights) const;

  const Sizes sizes_;
  const Context context_;
  const int64_t strip_;
  const MatrixProduct forward_;  // W x^T of a strip
  std::optional<MatrixProduct> forward_last_;
  const MatrixProduct set_, add_;          // kPieceRows of the weights' gradient
  std::optional<PairFormat> x_pairs_;      // their second factor
  std::optional<MatrixProduct> backward_;  // dy W
  std::optional<PairFormat> weight_pairs_;
  std::string rows_key_, pairs_key_;
};

/// Memory of the calling thread alone, aligned to 64 bytes; its next call for the same `buffer` invalidates it.
std::byte* ThreadRoom(size_t bytes, std::vector<std::byte>* buffer);

/// A copy of W's rows in another form, made for its version by all threads, or by an update in pieces on its way.
/// @param fill writes rows [begin, end) on the calling thread; must not refer to an op.
std::byte* CopyOfRows(const ParamView& weights, const std::string& key, size_t bytes, int64_t outputs, int64_t k,
                      const PackedParams::FillRows& fill);

/// Bytes of an array of scratch, so that what is behind it is aligned.
inline size_t AlignedBytes(int64_t elements, size_t each) {
  return (static_cast<size_t>(elements) * each + 63) / 64 * 64;
}

}  // namespace hp::onednn

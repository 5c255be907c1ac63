#pragma once

#include "backend/op.h"

#include <cstdint>
#include <vector>

namespace hp {

/// The inputs x_i [rows, ...] of a product (InnerProductDesc) as matrices [rows, K_i]: in place where they are dense,
/// else as copies, which take the first floats() of the op's scratch.
class InputRows {
 public:
  /// One input: columns [first, first + columns) of the weights belong to it.
  struct Block {
    TensorDesc desc;
    int64_t first = 0, columns = 0;
    bool dense = true;        ///< and float32: its rows can be read in place
    int64_t copy_offset = 0;  ///< of its dense copy in scratch, in floats
  };

  /// @param axis from which on an input is flattened; the axes before it are its rows.
  explicit InputRows(const std::vector<TensorDesc>& in, int axis = 1);

  const std::vector<Block>& blocks() const { return blocks_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }     ///< of the weights: the sum of the inputs'
  int64_t floats() const { return copy_floats_; }  ///< of scratch

  /// Makes the copies; Rows are valid then.
  void Bring(const OpArgs& args) const;
  /// Input `i` as [rows, columns].
  const float* Rows(const OpArgs& args, size_t i) const {
    return blocks_[i].dense ? args.in[i].floats() : Copy(args, i);
  }
  /// One row of all inputs, one behind the other: [columns()].
  void CopyRow(const OpArgs& args, int64_t row, float* to) const;
  /// Where the gradient of input `i`, which is wanted, is to be put as [rows, columns]. It takes the place of the copy.
  float* GradientRows(const OpArgs& args, size_t i) const {
    return blocks_[i].dense ? args.d_in[i].floats() : Copy(args, i);
  }
  /// Puts what stands in GradientRows into the input's own layout.
  void StoreGradient(const OpArgs& args, size_t i) const;

 private:
  float* Copy(const OpArgs& args, size_t i) const {
    return reinterpret_cast<float*>(args.scratch) + blocks_[i].copy_offset;
  }

  const int64_t rows_;
  int64_t columns_ = 0, copy_floats_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace hp

#pragma once

#include "backend/cpu/input_rows.h"
#include "backend/op.h"

#include <cstdint>
#include <vector>

namespace hp {

/// The inputs of a product of classes, side by side as features x [rows, columns] in its scratch, of cosines divided by
/// their norms. By all threads of the team.
class FeatureRows {
 public:
  FeatureRows(const std::vector<TensorDesc>& in, bool normalize) : inputs_(in), normalize_(normalize) {}

  int64_t rows() const { return inputs_.rows(); }
  int64_t columns() const { return inputs_.columns(); }
  /// That it takes of scratch, from its beginning: a multiple of 16.
  int64_t floats() const { return (inputs_.floats() + rows() * (columns() + 1) + 15) / 16 * 16; }

  /// Makes them; Rows are valid then.
  void Bring(const OpArgs& args) const;
  float* Rows(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch) + inputs_.floats(); }
  /// Makes of `gradient` [rows, columns], that of Rows, those of the inputs that want one. Reads Rows.
  void StoreGradients(const OpArgs& args, float* gradient) const;

 private:
  float* InverseNorms(const OpArgs& args) const { return Rows(args) + rows() * columns(); }

  const InputRows inputs_;
  const bool normalize_;
};

}  // namespace hp

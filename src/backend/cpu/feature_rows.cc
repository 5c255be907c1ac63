#include "backend/cpu/feature_rows.h"

#include "backend/cpu/parallel.h"
#include "backend/cpu/row_norms.h"

#include <algorithm>

namespace hp {

void FeatureRows::Bring(const OpArgs& args) const {
  inputs_.Bring(args);
  ForItems(rows(), rows() * columns(), [&](int64_t row) {
    float* const x = Rows(args) + row * columns();
    inputs_.CopyRow(args, row, x);
    if (!normalize_) return;
    InverseNorms(args)[row] = InverseNorm(x, columns());
    ScaleRow(InverseNorms(args)[row], columns(), x);
  });
}

void FeatureRows::StoreGradients(const OpArgs& args, float* gradient) const {
  ForItems(rows(), rows() * columns(), [&](int64_t row) {
    float* const of_row = gradient + row * columns();
    if (normalize_) {
      const float* const x = Rows(args) + row * columns();
      const auto along = static_cast<float>(RowDot(x, of_row, columns()));
      ProjectRow(x, along, InverseNorms(args)[row], columns(), of_row);
    }
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const InputRows::Block& block = inputs_.blocks()[i];
      if (args.d_in[i].data == nullptr) continue;
      std::copy_n(of_row + block.first, block.columns, inputs_.GradientRows(args, i) + row * block.columns);
    }
  });
  for (size_t i = 0; i < args.d_in.size(); ++i) {
    if (args.d_in[i].data != nullptr) inputs_.StoreGradient(args, i);
  }
}

}  // namespace hp

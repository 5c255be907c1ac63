#pragma once

#include "backend/cpu/parallel.h"
#include "backend/op.h"

#include <algorithm>
#include <cstdint>

namespace hp {

/// BackwardParams of an op that can compute them in pieces (Op::has_params_rows), by all threads, a piece each at a
/// time.
/// @param outputs,columns of parameter 0. @param rows that are summed over.
inline void BackwardParamsInPieces(Op* op, const OpArgs& args, int64_t outputs, int64_t columns, int64_t rows) {
  op->BeginParamsRows(args);
  const int64_t piece_rows = op->piece_rows(), pieces = (outputs + piece_rows - 1) / piece_rows;
  ForItems(pieces, rows * columns * outputs, [&](int64_t piece) {
    const int64_t begin = piece * piece_rows, end = std::min(begin + piece_rows, outputs);
    float* const d_bias = args.d_params.size() > 1 ? args.d_params[1] + begin : nullptr;
    op->BackwardParamsRows(args, begin, end, args.d_params[0] + begin * columns, d_bias);
  });
}

}  // namespace hp

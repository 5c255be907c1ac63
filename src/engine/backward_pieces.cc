#include "engine/backward_pieces.h"

#include "solvers/exchange/exchange.h"

#include <map>
#include <utility>

namespace hp {

std::vector<BackwardPiece> CutBackward(const std::vector<StepGradients>& steps) {
  std::vector<BackwardPiece> pieces;
  std::map<int, size_t> waiting;  // by stage: bytes in its bucket
  BackwardPiece piece;
  for (size_t i = 0; i < steps.size(); ++i) {
    piece.end = i + 1;
    const StepGradients& step = steps[i];
    if (step.stage < 0) continue;
    piece.groups.push_back(step.group);
    bool full = false;
    for (const size_t bytes : step.bytes) {
      size_t& bucket = waiting[step.stage];
      bucket += bytes;
      if (bucket < Exchange::kBucketBytes) continue;
      bucket = 0;
      full = true;
    }
    if (full) pieces.push_back(std::exchange(piece, {.begin = i + 1, .end = i + 1, .groups = {}}));
  }
  if (piece.begin < piece.end) pieces.push_back(std::move(piece));
  return pieces;
}

}  // namespace hp

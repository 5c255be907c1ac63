#pragma once

#include "model/node_model.h"
#include "proto/snapshot.pb.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hp {

/// Values and histories of the whole net at one iteration, in the memory of the first node. The slices of a parameter
/// lie dense one behind the other, in the order of WholeParam::slices, so that each arrives in one write wherever it
/// was cut; slices of rows are then the whole blob. Each slice is filled by one writer; all may be read when all are
/// there.
class GatheredModel {
 public:
  /// All zeros. `params` must outlive it.
  GatheredModel(const std::vector<WholeParam>& params, int64_t iteration);

  const std::vector<WholeParam>& params() const { return params_; }
  int64_t iteration() const { return iteration_; }

  /// Where slice `slice` of parameter `param` belongs, dense [count of its block]. Empty: the block is, or the
  /// parameter is frozen and `history` was asked for.
  std::span<float> Place(size_t param, size_t slice, bool history) const;
  /// Copies elements [begin, begin + out.size()) of a parameter's values, counted in the whole blob.
  void CopyValues(size_t param, int64_t begin, std::span<float> out) const;
  /// A parameter's whole blob, row-major: in place if its slices are rows, else put together in `room`. Null: a history
  /// of a frozen parameter.
  const float* Whole(size_t param, bool history, Buffer* room) const;

  std::optional<LossScalingState> loss_scaling;  ///< what the snapshot is to say of it

 private:
  bool InOrder(size_t param) const;

  const std::vector<WholeParam>& params_;
  const int64_t iteration_;
  std::vector<Buffer> values_, histories_;  // by parameter; no bytes: frozen
};

}  // namespace hp

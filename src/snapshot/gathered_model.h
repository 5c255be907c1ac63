#pragma once

#include "model/node_model.h"
#include "proto/snapshot.pb.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hp {

/// Values and histories of the whole net at one iteration, in the host's memory of the first node. The slices of a
/// parameter lie dense one behind the other, in the order of WholeParam::slices, so that each arrives in one write
/// however the blob was cut; slices of whole rows in their order then are the whole blob. No lock: each slice has one
/// writer, and what is read must be complete.
class GatheredModel {
 public:
  /// All zeros. Takes the bytes of the net's parameters, and as many for each history (which frozen ones never have),
  /// of address space; memory is taken as slices are written. CHECKs that the slices of each parameter make up the
  /// whole blob.
  /// @param params NodeModel::whole_params; must outlive it. @param iteration updates done.
  /// @param histories whether the model has them: for a snapshot, but not for clients.
  /// @return kResourceExhausted: out of memory.
  static StatusOr<std::shared_ptr<GatheredModel>> Create(const std::vector<WholeParam>& params, int64_t iteration,
                                                         bool histories);

  const std::vector<WholeParam>& params() const { return params_; }
  int64_t iteration() const { return iteration_; }

  /// How many arrays of a parameter it has: 1 (its values), and the histories.
  int arrays(size_t param) const { return static_cast<int>(arrays_[param].size()); }
  /// Where slice `slice` of parameter `param` (indices into params() and its slices) belongs, dense [count of its
  /// block], row-major. Empty: the block is. @param array 0: of its values; else of that history; below arrays().
  std::span<float> Place(size_t param, size_t slice, int array) const;
  /// Copies elements [begin, begin + out.size()) of a parameter's values, counted row-major in the whole blob, whatever
  /// slices they lie in.
  void CopyValues(size_t param, int64_t begin, std::span<float> out) const;
  /// A parameter's whole blob, row-major: in this model's memory if its slices are whole rows in order, else put
  /// together in `room`, which it allocates and which must live as long as the result is used. Null: it has no
  /// element. @param array as Place's.
  /// @return kResourceExhausted: no memory for `room`.
  StatusOr<const float*> Whole(size_t param, int array, Buffer* room) const;

  /// The loss scaler's state for the snapshot's manifest; nothing: losses are not scaled. Set before others read it.
  std::optional<LossScalingState> loss_scaling;

 private:
  GatheredModel(const std::vector<WholeParam>& params, int64_t iteration) : params_(params), iteration_(iteration) {}
  Status Allocate(bool histories);
  /// Whether the slices are whole rows in their order.
  bool InOrder(size_t param) const;

  const std::vector<WholeParam>& params_;
  const int64_t iteration_;
  std::vector<std::vector<Buffer>> arrays_;  // by parameter: its values, then its histories
};

}  // namespace hp

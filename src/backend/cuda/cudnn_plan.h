#pragma once

#include "backend/cuda/cudnn_descriptor.h"
#include "backend/cuda/library.h"

#include <string>
#include <utility>
#include <vector>

namespace hp {

/// What plans are made for: the GPU of `handle`, or, in tests without a GPU, one that is only described by `device`.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;           ///< null: no GPU
  const CudnnDescriptor* device = nullptr;  ///< device properties of cuDNN 9.8 or later; null: those of the handle
  GpuMath math = GpuMath::kFloat32;
  size_t most_workspace_bytes = size_t{1} << 30;  ///< of one plan; engines that need more are passed over
};

/// An operation graph for cuDNN: all descriptors finalized, each after those that it refers to.
struct CudnnOperations {
  std::vector<CudnnDescriptor> parts;  ///< tensors and the like
  std::vector<CudnnDescriptor> operations;
};

/// An execution plan of cuDNN for operations of fixed sizes. The engine is chosen when the plan is made: the first one
/// in the order of cuDNN's heuristics that is deterministic, as exact as the target's math requires, and within the
/// workspace. Nothing is timed, so equal inputs make equal plans. Run changes no state.
class CudnnPlan {
 public:
  /// @param what names the operations in messages.
  /// @return kFailedPrecondition: no engine is acceptable; the message has the reason for the last one tried.
  static StatusOr<CudnnPlan> Make(const CudnnTarget& target, CudnnOperations operations, const std::string& what);

  size_t workspace_bytes() const { return workspace_bytes_; }  ///< that Run needs
  /// cuDNN's notes on the arithmetic of the chosen engine.
  const std::vector<cudnnBackendNumericalNote_t>& notes() const { return notes_; }

  /// Puts the operations into the handle's stream. @param pointers (id, address) of each tensor that is not virtual, in
  /// the GPU's memory, aligned to kCudnnAlignment. @param workspace [workspace_bytes()].
  /// @return kFailedPrecondition: cuDNN refused.
  Status Run(cudnnHandle_t handle, const std::vector<std::pair<int64_t, const void*>>& pointers,
             std::byte* workspace) const;

 private:
  Status MakeGraph(const CudnnTarget& target);
  Status TryEngines(const CudnnTarget& target, cudnnBackendHeurMode_t mode, Status* last);
  Status TryEngine(const CudnnTarget& target, CudnnDescriptor* engine_config);

  std::string what_;
  CudnnOperations operations_;
  CudnnDescriptor graph_, engine_config_, plan_;
  std::vector<cudnnBackendNumericalNote_t> notes_;
  size_t workspace_bytes_ = 0;
};

/// Alignment of the tensors that a plan reads and writes, in bytes.
constexpr int64_t kCudnnAlignment = GpuConvolution::kAlignment;

}  // namespace hp

#pragma once

#include "backend/cuda/cudnn_descriptor.h"
#include "backend/cuda/library.h"

#include <string>
#include <utility>
#include <vector>

namespace hp {

/// What plans are made for: the GPU of a handle or, where there is none, one that a descriptor of cuDNN 9.8 describes.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* device = nullptr;
  GpuMath math = GpuMath::kFloat32;
  size_t most_workspace_bytes = size_t{1} << 30;  ///< of one plan; an engine that wants more is passed over
};

/// Operations on tensors, each finalised; what an operation refers to comes before it.
struct CudnnOperations {
  std::vector<CudnnDescriptor> parts;  ///< tensors and the like
  std::vector<CudnnDescriptor> operations;
};

/// How cuDNN computes some operations of fixed sizes: by the first engine, in the order of its heuristics, that is
/// deterministic and as exact as the target's math wants. Chosen when made; a call changes nothing.
class CudnnPlan {
 public:
  /// @param what for messages. @return kFailedPrecondition: no engine can, with the reason of the last one.
  static StatusOr<CudnnPlan> Make(const CudnnTarget& target, CudnnOperations operations, const std::string& what);

  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Of the engine that was chosen.
  const std::vector<cudnnBackendNumericalNote_t>& notes() const { return notes_; }

  /// Puts it into the handle's stream. @param pointers the tensors by their ids, aligned to kCudnnAlignment.
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

/// Of what a plan reads and writes, in bytes.
constexpr int64_t kCudnnAlignment = 16;

}  // namespace hp

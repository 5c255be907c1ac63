#pragma once

#include "backend/cuda/cudnn_descriptor.h"
#include "backend/cuda/engine_chooser.h"
#include "backend/cuda/library.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hp {

class CudnnPlan;

/// What plans are made for: the GPU of `handle`, or, in tests without a GPU, one that is only described by `device`.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;           ///< null: no GPU
  const CudnnDescriptor* device = nullptr;  ///< device properties of cuDNN 9.8 or later; null: those of the handle
  GpuMath math = GpuMath::kFloat32;
  size_t most_workspace_bytes = size_t{1} << 30;  ///< of one plan; engines that need more are passed over
  /// Chooses among the engines by timing them; null: the first one is taken, and nothing is timed.
  EngineChooser* chooser = nullptr;
  /// With a chooser: milliseconds that a plan takes on the GPU. Errors as EngineChooser::Timer's.
  std::function<StatusOr<double>(const CudnnPlan& plan)> time = {};
};

/// An operation graph for cuDNN: all descriptors finalized, each after those that it refers to.
struct CudnnOperations {
  std::vector<CudnnDescriptor> parts;  ///< tensors and the like
  std::vector<CudnnDescriptor> operations;
};

/// An engine of cuDNN that has become an execution plan.
struct CudnnEngine {
  EngineChoice choice;                 ///< what it takes to make it again
  std::vector<CudnnDescriptor> parts;  ///< what `config` was made of, if we made it
  CudnnDescriptor config, plan;
  std::vector<cudnnBackendNumericalNote_t> notes;
  size_t workspace_bytes = 0;
};

/// An execution plan of cuDNN for operations of fixed sizes. The engine is chosen when the plan is made, among those
/// that are deterministic, as exact as the target's math requires, and within the workspace. Without a chooser it is
/// the first one in the order of cuDNN's heuristics; nothing is timed, and equal inputs make equal plans. With one it
/// is that which the chooser has kept for the operations, or else the fastest of the first kMostCandidates. Run changes
/// no state.
class CudnnPlan {
 public:
  /// How many engines of an operation are timed, at most.
  static constexpr size_t kMostCandidates = 8;

  /// A tensor that Run reads or writes.
  struct Tensor {
    int64_t id = 0;
    size_t bytes = 0;
  };

  /// @param what names the operations in messages, and for the chooser together with math, types and layouts: it says
  /// all else that makes two operations different.
  /// @return kFailedPrecondition: no engine is acceptable; the message has the reason for the last one tried. The
  /// chooser's error, where it has one.
  static StatusOr<CudnnPlan> Make(const CudnnTarget& target, CudnnOperations operations, const std::string& what);

  size_t workspace_bytes() const { return engine_.workspace_bytes; }  ///< that Run needs
  /// cuDNN's notes on the arithmetic of the chosen engine.
  const std::vector<cudnnBackendNumericalNote_t>& notes() const { return engine_.notes; }
  /// With a chooser: what it takes to make the engine again.
  const EngineChoice& choice() const { return engine_.choice; }
  /// All that makes the plan what it is, in cuDNN's words (JSON): operations, GPU, engine and knobs.
  StatusOr<std::string> Describe();
  /// Those of which Run takes pointers.
  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// Puts the operations into the handle's stream. @param pointers (id, address) of each tensor that is not virtual, in
  /// the GPU's memory, aligned to kCudnnAlignment. @param workspace [workspace_bytes()].
  /// @return kFailedPrecondition: cuDNN refused.
  Status Run(cudnnHandle_t handle, const std::vector<std::pair<int64_t, const void*>>& pointers,
             std::byte* workspace) const;

 private:
  Status MakeGraph(const CudnnTarget& target);
  /// Reads tensors_ and layouts_ off the operations.
  Status ReadTensors();
  Status TakeFirst(const CudnnTarget& target);
  Status TakeFastest(const CudnnTarget& target);
  /// @return false: there is none, or it can't be made here.
  bool TakeKept(const CudnnTarget& target, const std::string& operation);
  /// The first `most` engines that are acceptable, in the order of the heuristics, none twice. @return why there are
  /// none.
  StatusOr<std::vector<CudnnEngine>> Acceptable(const CudnnTarget& target, size_t most);
  Status AddAcceptable(const CudnnTarget& target, cudnnBackendHeurMode_t mode, size_t most,
                       std::vector<CudnnEngine>* engines);
  StatusOr<CudnnEngine> MakeEngine(const CudnnTarget& target, CudnnDescriptor config);
  StatusOr<CudnnEngine> MakeAgain(const CudnnTarget& target, const EngineChoice& choice);

  std::string what_;
  CudnnOperations operations_;
  std::vector<Tensor> tensors_;
  std::string layouts_;  ///< of all tensors, and their types
  CudnnDescriptor graph_;
  CudnnEngine engine_;
};

/// Alignment of the tensors that a plan reads and writes, in bytes.
constexpr int64_t kCudnnAlignment = GpuConvolution::kAlignment;

}  // namespace hp

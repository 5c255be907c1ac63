// cuDNN lists engines for a graph by its heuristics: mode A, then the fallback. They are tried in that order until one
// has no objectionable numerical note, fits into the workspace and finalizes to a plan.
#include "backend/cuda/cudnn_plan.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

/// Why an engine with these notes won't do; null: it will.
const char* Objection(GpuMath math, const std::vector<cudnnBackendNumericalNote_t>& notes) {
  for (const cudnnBackendNumericalNote_t note : notes) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return "is nondeterministic";
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return "computes in half precision";
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return "loses precision in large Winograd tiles";
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // of float32 factors that is TF32
        if (math == GpuMath::kFloat32) return "computes in TF32";
        break;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

StatusOr<CudnnPlan> CudnnPlan::Make(const CudnnTarget& target, CudnnOperations operations, const std::string& what) {
  CudnnPlan plan;
  plan.what_ = what;
  plan.operations_ = std::move(operations);
  HP_RETURN_IF_ERROR(plan.MakeGraph(target));
  Status last = FailedPrecondition("cuDNN: %s: no engine found", what.c_str());
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (plan.TryEngines(target, mode, &last).ok()) return plan;
  }
  return last;
}

Status CudnnPlan::MakeGraph(const CudnnTarget& target) {
  graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what_);
  graph_.SetDescriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_.operations);
  if (target.handle != nullptr) graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  return graph_.Finalize();
}

Status CudnnPlan::TryEngines(const CudnnTarget& target, cudnnBackendHeurMode_t mode, Status* last) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what_ + ", heuristics");
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (target.device != nullptr) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
#endif
  *last = heuristics.Finalize();
  if (!last->ok()) return *last;
  for (CudnnDescriptor& config : heuristics.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                           CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what_ + ", engine")) {
    *last = TryEngine(target, &config);
    if (!last->ok()) continue;
    engine_config_ = std::move(config);
    return OkStatus();
  }
  if (last->ok()) *last = FailedPrecondition("cuDNN: %s: no engine found", what_.c_str());
  return *last;
}

Status CudnnPlan::TryEngine(const CudnnTarget& target, CudnnDescriptor* engine_config) {
  std::vector<CudnnDescriptor> engine =
      engine_config->GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, what_ + ", engine");
  HP_RETURN_IF_ERROR(engine_config->status());
  CHECK_EQ(engine.size(), 1u);
  notes_ =
      engine[0].GetAll<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  HP_RETURN_IF_ERROR(engine[0].status());
  if (const char* objection = Objection(target.math, notes_)) {
    return FailedPrecondition("cuDNN: %s: no usable engine, the last one %s", what_.c_str(), objection);
  }

  plan_ = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what_ + ", plan");
  plan_.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *engine_config);
  if (target.handle != nullptr) plan_.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
#if CUDNN_VERSION >= 90800
  if (target.device != nullptr) plan_.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
#endif
  HP_RETURN_IF_ERROR(plan_.Finalize());
  const int64_t bytes = plan_.Get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  HP_RETURN_IF_ERROR(plan_.status());
  if (static_cast<size_t>(bytes) > target.most_workspace_bytes) {
    return FailedPrecondition("cuDNN: %s: an engine needs %lld bytes of workspace", what_.c_str(),
                              static_cast<long long>(bytes));
  }
  workspace_bytes_ = static_cast<size_t>(bytes);
  return OkStatus();
}

Status CudnnPlan::Run(cudnnHandle_t handle, const std::vector<std::pair<int64_t, const void*>>& pointers,
                      std::byte* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const auto& [id, pointer] : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer) % kCudnnAlignment != 0) {
      return InternalError("%s: tensor %c is not aligned to %lld bytes", what_.c_str(), static_cast<char>(id),
                           static_cast<long long>(kCudnnAlignment));
    }
    ids.push_back(id);
    data.push_back(const_cast<void*>(pointer));
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what_);
  pack.SetAll(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.SetAll(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void*>(workspace));
  HP_RETURN_IF_ERROR(pack.Finalize());
  return CudnnStatus(cudnnBackendExecute(handle, plan_.get(), pack.get()), what_);
}

}  // namespace hp

// cuDNN lists engines for a graph by its heuristics: mode A, then the fallback. They are tried in that order; those
// that have no objectionable numerical note, fit into the workspace and finalize to a plan are acceptable. An engine is
// known by its global index and its knobs, and from these it is made again where a chooser has kept them.
#include "backend/cuda/cudnn_plan.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

const char* NameOf(GpuMath math) {
  switch (math) {
    case GpuMath::kFloat32:
      return "float32";
    case GpuMath::kTf32:
      return "TF32";
    case GpuMath::kBFloat16:
      return "bfloat16";
    case GpuMath::kFloat16:
      return "float16";
  }
  return "";
}

const char* NameOf(cudnnDataType_t type) {
  if (type == CUDNN_DATA_BFLOAT16) return "bfloat16";
  return type == CUDNN_DATA_HALF ? "float16" : "float32";
}

/// The order of a tensor's elements by its strides, of dims [N, C, H, W].
std::string LayoutOf(const std::vector<int64_t>& d, const std::vector<int64_t>& strides) {
  if (d.size() == 4 && strides == std::vector<int64_t>{d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}) return "NHWC";
  if (d.size() == 4 && strides == std::vector<int64_t>{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}) return "NCHW";
  return "strides " + Shape(strides).ToString();
}

/// Bytes from a tensor's first element to its last one's end.
size_t SpanBytes(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, cudnnDataType_t type) {
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return static_cast<size_t>(last + 1) * (type == CUDNN_DATA_FLOAT ? 4 : 2);
}

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

StatusOr<EngineChoice> ChoiceOf(CudnnDescriptor* engine, CudnnDescriptor* config, const std::string& what) {
  EngineChoice choice;
  choice.engine = engine->Get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  HP_RETURN_IF_ERROR(engine->status());
  std::vector<CudnnDescriptor> knobs = config->GetDescriptors(
      CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, what + ", knob", CUDNN_KNOB_TYPE_COUNTS);
  HP_RETURN_IF_ERROR(config->status());
  for (CudnnDescriptor& knob : knobs) {
    choice.knobs.emplace_back(knob.Get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                              knob.Get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    HP_RETURN_IF_ERROR(knob.status());
  }
  return choice;
}

}  // namespace

StatusOr<CudnnPlan> CudnnPlan::Make(const CudnnTarget& target, CudnnOperations operations, const std::string& what) {
  CudnnPlan plan;
  plan.what_ = what;
  plan.operations_ = std::move(operations);
  HP_RETURN_IF_ERROR(plan.MakeGraph(target));
  HP_RETURN_IF_ERROR(plan.ReadTensors());
  HP_RETURN_IF_ERROR(target.chooser == nullptr ? plan.TakeFirst(target) : plan.TakeFastest(target));
  return plan;
}

Status CudnnPlan::MakeGraph(const CudnnTarget& target) {
  graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what_);
  graph_.SetDescriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_.operations);
  if (target.handle != nullptr) graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  return graph_.Finalize();
}

Status CudnnPlan::ReadTensors() {
  for (CudnnDescriptor& part : operations_.parts) {
    if (part.type() != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
    const auto id = part.Get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto type = part.Get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    const auto dims = part.GetAll<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_DIM_MAX);
    const auto strides = part.GetAll<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_DIM_MAX);
    const bool is_virtual = part.Get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    HP_RETURN_IF_ERROR(part.status());
    layouts_ += Format("; %c %s [%s] %s", static_cast<char>(id), NameOf(type), Shape(dims).ToString().c_str(),
                       LayoutOf(dims, strides).c_str());
    if (!is_virtual) tensors_.push_back({id, SpanBytes(dims, strides, type)});
  }
  return OkStatus();
}

Status CudnnPlan::TakeFirst(const CudnnTarget& target) {
  HP_ASSIGN_OR_RETURN(std::vector<CudnnEngine> engines, Acceptable(target, 1));
  engine_ = std::move(engines[0]);
  return OkStatus();
}

Status CudnnPlan::TakeFastest(const CudnnTarget& target) {
  const std::string operation = Format("%s; %s%s", what_.c_str(), NameOf(target.math), layouts_.c_str());
  if (TakeKept(target, operation)) return OkStatus();
  HP_ASSIGN_OR_RETURN(std::vector<CudnnEngine> engines, Acceptable(target, kMostCandidates));
  std::vector<EngineChoice> choices;
  for (const CudnnEngine& engine : engines) choices.push_back(engine.choice);
  const auto time = [this, &target, &engines](size_t candidate) {
    std::swap(engine_, engines[candidate]);
    StatusOr<double> ms = target.time(*this);
    std::swap(engine_, engines[candidate]);
    return ms;
  };
  HP_ASSIGN_OR_RETURN(const size_t best, target.chooser->Choose(operation, choices, time));
  engine_ = std::move(engines[best]);
  return OkStatus();
}

bool CudnnPlan::TakeKept(const CudnnTarget& target, const std::string& operation) {
  const std::optional<EngineChoice> kept = target.chooser->Kept(operation);
  if (!kept) return false;
  StatusOr<CudnnEngine> engine = MakeAgain(target, *kept);
  if (!engine.ok()) {
    LOG(WARNING) << "engine " << kept->engine
                 << ", which was chosen before, can't be used: " << engine.status().message()
                 << ": engines are timed again, and bits may change";
    return false;
  }
  engine_ = *std::move(engine);
  return true;
}

StatusOr<std::vector<CudnnEngine>> CudnnPlan::Acceptable(const CudnnTarget& target, size_t most) {
  std::vector<CudnnEngine> engines;
  Status last;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (engines.size() < most) last = AddAcceptable(target, mode, most, &engines);
  }
  if (!engines.empty()) return engines;
  return last.ok() ? FailedPrecondition("cuDNN: %s: no engine found", what_.c_str()) : last;
}

Status CudnnPlan::AddAcceptable(const CudnnTarget& target, cudnnBackendHeurMode_t mode, size_t most,
                                std::vector<CudnnEngine>* engines) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what_ + ", heuristics");
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (target.device != nullptr) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
#endif
  HP_RETURN_IF_ERROR(heuristics.Finalize());
  Status last;
  for (CudnnDescriptor& config : heuristics.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                           CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what_ + ", engine")) {
    if (engines->size() == most) break;
    StatusOr<CudnnEngine> engine = MakeEngine(target, std::move(config));
    last = engine.status();
    if (!engine.ok()) continue;
    const auto same = [&engine](const CudnnEngine& other) { return other.choice == engine->choice; };
    if (std::none_of(engines->begin(), engines->end(), same)) engines->push_back(*std::move(engine));
  }
  return last;
}

StatusOr<CudnnEngine> CudnnPlan::MakeEngine(const CudnnTarget& target, CudnnDescriptor config) {
  CudnnEngine made;
  made.config = std::move(config);
  std::vector<CudnnDescriptor> engine =
      made.config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, what_ + ", engine");
  HP_RETURN_IF_ERROR(made.config.status());
  CHECK_EQ(engine.size(), 1u);
  made.notes =
      engine[0].GetAll<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  HP_RETURN_IF_ERROR(engine[0].status());
  if (const char* objection = Objection(target.math, made.notes)) {
    return FailedPrecondition("cuDNN: %s: no usable engine, the last one %s", what_.c_str(), objection);
  }

  made.plan = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what_ + ", plan");
  made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, made.config);
  if (target.handle != nullptr) made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
#if CUDNN_VERSION >= 90800
  if (target.device != nullptr) made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
#endif
  HP_RETURN_IF_ERROR(made.plan.Finalize());
  const int64_t bytes = made.plan.Get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  HP_RETURN_IF_ERROR(made.plan.status());
  if (static_cast<size_t>(bytes) > target.most_workspace_bytes) {
    return FailedPrecondition("cuDNN: %s: an engine needs %lld bytes of workspace", what_.c_str(),
                              static_cast<long long>(bytes));
  }
  made.workspace_bytes = static_cast<size_t>(bytes);
  if (target.chooser != nullptr) {
    HP_ASSIGN_OR_RETURN(made.choice, ChoiceOf(&engine[0], &made.config, what_));
  }
  return made;
}

StatusOr<CudnnEngine> CudnnPlan::MakeAgain(const CudnnTarget& target, const EngineChoice& choice) {
  std::vector<CudnnDescriptor> parts;
  CudnnDescriptor& engine = parts.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR, what_ + ", engine");
  engine.Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_);
  engine.Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
#if CUDNN_VERSION >= 90800
  if (target.device != nullptr) engine.Set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device);
#endif
  HP_RETURN_IF_ERROR(engine.Finalize());
  std::vector<CudnnDescriptor> knobs;
  for (const auto& [type, value] : choice.knobs) {
    CudnnDescriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, what_ + ", knob");
    knob.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    knob.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    HP_RETURN_IF_ERROR(knob.Finalize());
  }
  CudnnDescriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what_ + ", engine");
  config.Set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) config.SetDescriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  HP_RETURN_IF_ERROR(config.Finalize());
  HP_ASSIGN_OR_RETURN(CudnnEngine made, MakeEngine(target, std::move(config)));
  std::move(knobs.begin(), knobs.end(), std::back_inserter(parts));
  made.parts = std::move(parts);
  return made;
}

StatusOr<std::string> CudnnPlan::Describe() {
  constexpr int64_t kMostBytes = 1 << 20;
  const std::vector<char> text = engine_.plan.GetAll<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, kMostBytes);
  HP_RETURN_IF_ERROR(engine_.plan.status());
  return std::string(text.begin(), text.end());
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
  return CudnnStatus(cudnnBackendExecute(handle, engine_.plan.get(), pack.get()), what_);
}

}  // namespace hp

#include "engine/initial_params.h"

#include "checkpoint/matched_weights.h"
#include "checkpoint/weights.h"
#include "layers/filler.h"
#include "proto/solver_type.h"

#include "glog/logging.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace hp {
namespace {

Status Fill(const NodeNet& net, uint64_t seed, ParamStore* params) {
  return params->Fill([&](const StoredParam& param, float* out) {
    for (const ParamPlan& candidate : net.plan().params()) {
      if (candidate.layer != param.layer || candidate.blob != param.blob) continue;
      FillParam(candidate.spec.filler, param.whole, param.block, seed, param.name(), out);
    }
  });
}

Status CopyValues(const CaffeModel& model, int index, ParamStore* params) {
  const StoredParam& param = params->param(index);
  std::vector<float> values(params->count(index));
  HP_RETURN_IF_ERROR(model.CopyBlock(param.layer, param.blob, param.whole, param.block, values));
  return params->WriteValues(index, values);
}

Status CopyFrom(const LoadedSnapshot& snapshot, int index, ParamStore* params) {
  const StoredParam& param = params->param(index);
  std::vector<float> block(params->count(index));
  HP_RETURN_IF_ERROR(snapshot.CopyArray(param.layer, param.blob, 0, param.whole, param.block, block));
  HP_RETURN_IF_ERROR(params->WriteValues(index, block));
  for (int number = 1; number <= param.histories() && !params->history(index, number).empty(); ++number) {
    HP_RETURN_IF_ERROR(snapshot.CopyArray(param.layer, param.blob, number, param.whole, param.block, block));
    HP_RETURN_IF_ERROR(params->WriteHistory(index, number, block));
  }
  return OkStatus();
}

Status FromSnapshot(const NodeModel& model, const std::string& path, LoadedSnapshot* snapshot, ParamStore* params) {
  std::vector<SnapshotParam> whole;
  for (const WholeParam& param : model.whole_params()) {
    whole.push_back({param.whole.layer, param.whole.blob, param.whole.whole});
  }
  HP_RETURN_IF_ERROR(FitSnapshot(path, whole, HistoriesOf(model.job().solver()), snapshot));
  for (int i = 0; i < params->size(); ++i) {
    HP_RETURN_IF_ERROR(CopyFrom(*snapshot, i, params));
  }
  return OkStatus();
}

// Of the whole net: the same on all nodes, so one of them says it.
void LogMatches(const NodeModel& node, const CaffeModel& model) {
  std::vector<BlobKey> net;
  for (const WholeParam& param : node.whole_params()) net.emplace_back(param.whole.layer, param.whole.blob);
  const MatchedWeights matched = MatchWeights(net, model);
  LOG(INFO) << matched.Describe(model.path);
  if (matched.loaded.empty()) {
    LOG(WARNING) << model.path << ": no layer of the net has all its weights there; layers are matched by name";
  }
}

// A layer that the file does not have is new: it keeps its filler's values.
Status FromWeights(const NodeModel& node, const std::string& path, ParamStore* params) {
  HP_ASSIGN_OR_RETURN(const CaffeModel model, ReadCaffeModel(path));
  if (node.rank() == 0) LogMatches(node, model);
  for (int i = 0; i < params->size(); ++i) {
    if (model.Find(params->param(i).layer, params->param(i).blob) == nullptr) continue;
    HP_RETURN_IF_ERROR(CopyValues(model, i, params));
  }
  return OkStatus();
}

}  // namespace

Status SetInitialParams(const NodeModel& model, const InitialParams& from, ParamStore* params) {
  // It has all blobs: drawing others first would hold a restart up.
  if (from.snapshot != nullptr) return FromSnapshot(model, from.snapshot_path, from.snapshot, params);
  HP_RETURN_IF_ERROR(Fill(model.any_net(true), from.seed, params));
  for (const std::string& path : from.weights) HP_RETURN_IF_ERROR(FromWeights(model, path, params));
  return OkStatus();
}

}  // namespace hp

#include "engine/initial_params.h"

#include "checkpoint/matched_weights.h"
#include "checkpoint/weights.h"
#include "layers/filler.h"
#include "proto/net_filter.h"
#include "proto/solver_type.h"

#include "glog/logging.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace hp {
namespace {

/// Under which names the net has a parameter, its owner's first.
std::vector<SharedBlob> NamesOf(const WholeParam& param) {
  std::vector<SharedBlob> names = {{param.whole.layer, param.whole.blob, param.whole.whole}};
  names.insert(names.end(), param.users.begin(), param.users.end());
  return names;
}

std::vector<SharedBlob> NamesOf(const NodeModel& node, const StoredParam& param) {
  const auto& all = node.whole_params();
  const auto found = std::find_if(all.begin(), all.end(), [&param](const WholeParam& other) {
    return other.whole.layer == param.layer && other.whole.blob == param.blob;
  });
  CHECK(found != all.end()) << param.name() << " is not a parameter of the net";
  return NamesOf(*found);
}

Status CopyValues(const CaffeModel& model, const std::vector<SharedBlob>& names, int index, ParamStore* params) {
  std::vector<float> values(params->count(index));
  const Status copied = model.CopyBlock(names, params->param(index).block, values);
  if (copied.code() == StatusCode::kFailedPrecondition) {
    return Status(copied.code(), copied.message() + "; to learn this layer anew, give it another name");
  }
  HP_RETURN_IF_ERROR(copied);
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

std::vector<std::vector<SharedBlob>> NamesOfAll(const NodeModel& node) {
  std::vector<std::vector<SharedBlob>> names;
  for (const WholeParam& param : node.whole_params()) names.push_back(NamesOf(param));
  return names;
}

Status CheckCounts(const NodeModel& node, const CaffeModel& model) {
  std::set<std::string> layers;
  for (const GraphLayer& layer : node.job().graph(caffe::TRAIN).layers()) layers.insert(layer.traits.name());
  return CheckBlobCounts(model, layers, NamesOfAll(node));
}

// Of one in parts FitSnapshot compares the blobs.
Status FromSnapshot(const NodeModel& model, const std::string& path, LoadedSnapshot* snapshot, ParamStore* params) {
  if (!snapshot->parts) HP_RETURN_IF_ERROR(CheckCounts(model, snapshot->model));
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

// A layer that the file does not have is new: it keeps its filler's values.
// @param last, earlier as LogMatches'.
Status FromWeights(const NodeModel& node, const CaffeModel& model, bool last, std::set<BlobKey>* earlier,
                   ParamStore* params) {
  HP_RETURN_IF_ERROR(CheckCounts(node, model));
  for (int i = 0; i < params->size(); ++i) {
    const std::vector<SharedBlob> names = NamesOf(node, params->param(i));
    if (model.LastOf(names) != nullptr) HP_RETURN_IF_ERROR(CopyValues(model, names, i, params));
  }
  // Of the whole net: the same on all nodes, so one of them says it.
  if (node.rank() == 0 && LogMatches(model, NamesOfAll(node), last, earlier).loaded.empty()) {
    LOG(WARNING) << model.path << ": no layer of the net has all its weights there; layers are matched by name";
  }
  return OkStatus();
}

}  // namespace

Status FillParams(const NodeNet& net, uint64_t seed, ParamStore* params) {
  return params->Fill([&](const StoredParam& param, float* out) {
    for (const ParamPlan& candidate : net.plan().params()) {
      if (candidate.layer != param.layer || candidate.blob != param.blob) continue;
      FillParam(candidate.spec.filler, param.whole, param.block, seed, param.name(), out);
    }
  });
}

Status SetInitialParams(const NodeModel& model, const InitialParams& from, ParamStore* params) {
  // It has all blobs: drawing others first would hold a restart up.
  if (from.snapshot != nullptr) return FromSnapshot(model, from.snapshot_path, from.snapshot, params);
  HP_RETURN_IF_ERROR(FillParams(model.any_net(caffe::TRAIN), from.seed, params));
  HP_ASSIGN_OR_RETURN(const CaffeModel in_net,
                      ModelInNet(FilterNet(model.job().graph(caffe::TRAIN).net(), caffe::TRAIN)));
  std::set<BlobKey> given;
  if (!in_net.blobs.empty()) HP_RETURN_IF_ERROR(FromWeights(model, in_net, from.weights.empty(), &given, params));
  for (size_t i = 0; i < from.weights.size(); ++i) {
    HP_ASSIGN_OR_RETURN(const CaffeModel file, ReadCaffeModel(from.weights[i]));
    HP_RETURN_IF_ERROR(FromWeights(model, file, i + 1 == from.weights.size(), &given, params));
  }
  return OkStatus();
}

}  // namespace hp

#include "commands/file_warnings.h"

#include "checkpoint/matched_weights.h"
#include "checkpoint/weights.h"
#include "node/snapshot_prefix.h"
#include "proto/text.h"

#include <cstdint>
#include <filesystem>
#include <set>

namespace hp {
namespace {

/// Larger files of weights are not read for a warning.
constexpr uintmax_t kMostComparedBytes = uintmax_t{1} << 30;

/// Whether the parameters of a training can begin with those of a file.
Status CheckFit(const CaffeModel& model, const JobPlan& job) {
  std::set<std::string> layers;
  for (const GraphLayer& layer : job.graph(caffe::TRAIN).layers()) layers.insert(layer.traits.name());
  std::vector<std::vector<SharedBlob>> params;
  for (const ParamOwners& param : job.params()) {
    params.push_back({{param.layer, param.blob, param.spec.shape}});
    params.back().insert(params.back().end(), param.users.begin(), param.users.end());
  }
  HP_RETURN_IF_ERROR(CheckBlobCounts(model, layers, params));
  for (const std::vector<SharedBlob>& names : params) {
    const SharedBlob* const name = model.LastOf(names);
    if (name == nullptr) continue;
    const Blob& blob = *model.Find(name->layer, name->blob);
    HP_RETURN_IF_ERROR(CheckShape(blob, name->layer, name->blob, name->shape).Prepend(model.path));
  }
  return OkStatus();
}

Status CheckWeights(const std::string& path, const JobPlan* job) {
  std::error_code ignored;
  const bool there = std::filesystem::exists(path, ignored);
  const auto bytes = std::filesystem::file_size(path, ignored);
  if (there && (job == nullptr || bytes > kMostComparedBytes)) return OkStatus();
  HP_ASSIGN_OR_RETURN(const CaffeModel model, ReadCaffeModel(path));
  return job == nullptr ? OkStatus() : CheckFit(model, *job);
}

}  // namespace

std::vector<std::string> FileWarnings(const caffe::SolverParameter& solver, const std::string& solver_path,
                                      const JobPlan* job) {
  std::vector<std::string> warnings;
  const auto add = [&warnings](const Status& status) {
    if (!status.ok()) warnings.push_back(status.message() + " (on this host)");
  };
  add(CheckSnapshotPrefix(solver, solver_path));
  for (const std::string& path : WeightsOf(solver)) add(CheckWeights(path, job));
  return warnings;
}

}  // namespace hp

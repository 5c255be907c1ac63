#include "base/words.h"
#include "proto/place.h"
#include "proto/placed_text.h"
#include "proto/solver_nets.h"
#include "proto/text.h"
#include "proto/upgrade/upgrade.h"

#include <filesystem>

namespace hp {
namespace {

using google::protobuf::TextFormat;

/// Caffe's rule: without a prefix, or with one that is a folder, snapshots are named after the solver's file.
/// Source: Caffe, src/caffe/util/upgrade_proto.cpp, UpgradeSnapshotPrefixProperty.
void CompleteSnapshotPrefix(const std::string& path, caffe::SolverParameter* solver) {
  const std::filesystem::path file(path), prefix(solver->snapshot_prefix());
  std::error_code ignored;
  if (!solver->has_snapshot_prefix()) {
    solver->set_snapshot_prefix(std::filesystem::path(file).replace_extension().string());
  } else if (std::filesystem::is_directory(prefix, ignored)) {
    solver->set_snapshot_prefix((prefix / file.stem()).string());
  }
}

/// One entry for each file, with the path where it is.
void FindWeights(const std::string& path, caffe::SolverParameter* solver) {
  const std::vector<std::string> files = WeightsOf(*solver);
  solver->clear_weights();
  std::error_code ignored;
  for (const std::string& file : files) {
    const std::string beside = PathBeside(path, file);
    const bool moved = !std::filesystem::exists(file, ignored) && std::filesystem::exists(beside, ignored);
    solver->add_weights(moved ? beside : file);
  }
}

}  // namespace

std::string PathBeside(const std::string& base, const std::string& relative) {
  const std::filesystem::path path(relative);
  if (path.is_absolute()) return relative;
  return (std::filesystem::path(base).parent_path() / path).lexically_normal().string();
}

StatusOr<caffe::SolverParameter> ReadSolver(const std::string& path) {
  caffe::SolverParameter solver;
  TextFormat::ParseInfoTree places;
  HP_RETURN_IF_ERROR(ReadPlacedText(path, &solver, &places));
  HP_RETURN_IF_ERROR(AtFields(UpgradeSolver(&solver), path));
  CompleteSnapshotPrefix(path, &solver);
  FindWeights(path, &solver);
  HP_RETURN_IF_ERROR(UniteNets(path, places, &solver));
  return solver;
}

std::vector<std::string> WeightsOf(const caffe::SolverParameter& solver) {
  std::vector<std::string> files;
  for (const std::string& entry : solver.weights()) {
    for (std::string& file : SplitList(entry)) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace hp

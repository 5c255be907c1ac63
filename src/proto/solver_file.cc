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
  HP_RETURN_IF_ERROR(UniteNets(path, places, &solver));
  return solver;
}

StatusOr<caffe::NetParameter> NetOfSolver(const caffe::SolverParameter& solver) {
  if (solver.has_net_param()) return solver.net_param();
  return ReadNet(solver.net());
}

}  // namespace hp

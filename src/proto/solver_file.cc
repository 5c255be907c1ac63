#include "base/format.h"
#include "proto/place.h"
#include "proto/placed_text.h"
#include "proto/text.h"

#include <filesystem>

namespace hp {
namespace {

using google::protobuf::TextFormat;

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Two nets for the phases of one job would have to be cut into stages alike; one net with phases always is.
Status RefuseSeparateNets(const caffe::SolverParameter& solver, const std::string& path) {
  const char* field = solver.has_train_net()             ? "train_net"
                      : solver.test_net_size() > 0       ? "test_net"
                      : solver.has_train_net_param()     ? "train_net_param"
                      : solver.test_net_param_size() > 0 ? "test_net_param"
                                                         : nullptr;
  if (field == nullptr) return OkStatus();
  return InvalidArgument(
      "%s: field \"%s\" is a Caffe field that hpnode does not support yet; expected one \"net\" with both phases "
      "(include { phase: TRAIN }, include { phase: TEST })",
      path.c_str(), field);
}

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
  HP_RETURN_IF_ERROR(RefuseSeparateNets(solver, path));
  CompleteSnapshotPrefix(path, &solver);
  if (solver.has_net() == solver.has_net_param()) {
    return InvalidArgument("%s: the solver names %s; expected net: \"...\" or net_param { ... }", path.c_str(),
                           solver.has_net() ? "two nets" : "no net");
  }
  if (solver.has_net_param()) {
    const auto* const field =
        caffe::SolverParameter::descriptor()->FindFieldByNumber(caffe::SolverParameter::kNetParamFieldNumber);
    const Status net = CompleteNet(path, places.GetTreeForNested(field, -1), solver.mutable_net_param());
    HP_RETURN_IF_ERROR(AtFile(AtLayer(net, solver, path), path));
    return solver;
  }
  if (IsFile(solver.net())) return solver;
  const std::string beside = PathBeside(path, solver.net());
  if (!IsFile(beside)) {
    const std::string places = beside == solver.net() ? beside : solver.net() + " or " + beside;
    return NotFound("%s: net \"%s\": no such file: %s", path.c_str(), solver.net().c_str(), places.c_str());
  }
  solver.set_net(beside);
  return solver;
}

StatusOr<caffe::NetParameter> NetOfSolver(const caffe::SolverParameter& solver) {
  if (solver.has_net_param()) return solver.net_param();
  return ReadNet(solver.net());
}

}  // namespace hp

#include "node/snapshot_prefix.h"

#include "base/pending_file.h"
#include "proto/place.h"

#include <filesystem>

namespace hp {

Status CheckSnapshotPrefix(const caffe::SolverParameter& solver, const std::string& solver_path) {
  if (solver.snapshot() == 0 && !solver.snapshot_after_train()) return OkStatus();
  const std::string& prefix = solver.snapshot_prefix();
  const std::filesystem::path folder = std::filesystem::path(prefix).parent_path();
  std::error_code ignored;
  const auto placed = [&](const Status& status) {
    return solver_path.empty() ? status : AtFields(status, solver_path);
  };
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    return placed(NotFound("snapshot_prefix: \"%s\": no such folder: %s", prefix.c_str(), folder.c_str()));
  }
  // Where permissions, read-only mounts and quotas are as they are, only trying says it.
  const Status status = PendingFile::CreatePrivate(prefix + "_writable").status();
  if (status.ok() || status.code() == StatusCode::kResourceExhausted) return OkStatus();
  return placed(InvalidArgument("snapshot_prefix: \"%s\": no snapshot can be written there: %s", prefix.c_str(),
                                status.message().c_str()));
}

}  // namespace hp

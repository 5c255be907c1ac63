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
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    return AtFields(NotFound("snapshot_prefix: \"%s\": no such folder: %s", prefix.c_str(), folder.c_str()),
                    solver_path);
  }
  // Where permissions, read-only mounts and quotas are as they are, only trying says it.
  const Status status = PendingFile::CreatePrivate(prefix + "_writable").status();
  if (status.ok() || status.code() == StatusCode::kResourceExhausted) return OkStatus();
  return AtFields(InvalidArgument("snapshot_prefix: \"%s\": no snapshot can be written there: %s", prefix.c_str(),
                                  status.message().c_str()),
                  solver_path);
}

}  // namespace hp

#include "data/db_writer.h"

#include "base/pending_file.h"
#include "data/db_writers.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace hp {
namespace {

Status AlreadyThere(const std::string& path) {
  return FailedPrecondition("%s already exists: remove it first, or choose another name", path.c_str());
}

// Not every file system knows RENAME_NOREPLACE; a plain rename replaces nothing but an empty folder.
Status MoveInPlace(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return OkStatus();
  if (errno == EINVAL && rename(from.c_str(), to.c_str()) == 0) return OkStatus();
  if (errno == EEXIST || errno == ENOTEMPTY) return AlreadyThere(to);
  return FailedPrecondition("can't move %s to %s: %s", from.c_str(), to.c_str(), std::strerror(errno));
}

}  // namespace

StatusOr<std::unique_ptr<DbWriter>> DbWriter::Create(const std::string& name, DbBackend backend) {
  std::string path = name;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.empty()) return InvalidArgument("no output database is given");
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::not_found) {
    return AlreadyThere(path);
  }
  std::string partial = path + ".partial-XXXXXX";
  if (mkdtemp(partial.data()) == nullptr) {
    const int code = errno;
    if (code == ENOENT) return NotFound("can't write %s: its folder does not exist", path.c_str());
    return InvalidArgument("can't write %s: %s", path.c_str(), std::strerror(code));
  }
  // mkdtemp lets nobody else in; databases are for all who may read beside it.
  std::filesystem::permissions(partial, std::filesystem::perms(0755), error);
  auto writer = backend == DbBackend::kLmdb ? NewLmdbWriter(path, partial) : NewLevelDbWriter(path, partial);
  if (!writer.ok()) std::filesystem::remove_all(partial, error);
  return writer;
}

DbWriter::~DbWriter() {
  if (finished_) return;
  std::error_code error;
  std::filesystem::remove_all(partial_, error);
  LOG_IF(WARNING, error) << "can't remove " << partial_ << ": " << error.message();
}

Status DbWriter::Put(std::string_view key, std::string_view value) {
  CHECK(!finished_);
  HP_RETURN_IF_ERROR(DoPut(key, value));
  ++count_;
  return OkStatus();
}

Status DbWriter::Finish() {
  CHECK(!finished_);
  HP_RETURN_IF_ERROR(DoFinish());
  HP_RETURN_IF_ERROR(MoveInPlace(partial_, path_));
  finished_ = true;
  const Status synced = SyncFolderOf(path_);
  LOG_IF(WARNING, !synced.ok()) << "cannot sync " << path_ << ", a power failure may lose it: " << synced;
  return OkStatus();
}

}  // namespace hp

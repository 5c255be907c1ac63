#include "base/pending_file.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hp {
namespace {

// kNotFound is left for Commit and SyncFolderOf: a folder that is missing at the start is CannotCreate's.
Status FileError(const std::string& path, const char* what, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return ResourceExhausted("%s: %s: %s", path.c_str(), what, strerror(error));
  }
  if (error == ENOENT) return NotFound("%s: %s: %s", path.c_str(), what, strerror(error));
  return InvalidArgument("%s: %s: %s", path.c_str(), what, strerror(error));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Names of what a process has open, maybe a file: links that are there for all programs of the host.
bool IsOpenStream(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/");
}

Status CannotCreate(const std::string& path, const std::string& temporary, int error) {
  if (error != ENOENT) return FileError(temporary, "cannot create", error);
  // Some folders, such as /proc, say so of names that they do not take.
  if (access(FolderOf(path).c_str(), F_OK) == 0) {
    return InvalidArgument("%s: cannot create: %s", temporary.c_str(), strerror(error));
  }
  return InvalidArgument("%s: the folder %s does not exist", path.c_str(), FolderOf(path).c_str());
}

}  // namespace

StatusOr<std::unique_ptr<PendingFile>> PendingFile::Create(const std::string& path, const std::string& suffix) {
  struct stat there = {};
  const bool exists = stat(path.c_str(), &there) == 0;
  if (exists && (!S_ISREG(there.st_mode) || IsOpenStream(path))) return CreateInPlace(path);
  std::string temporary = path + suffix;
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return CannotCreate(path, temporary, errno);
  return std::unique_ptr<PendingFile>(new PendingFile(path, std::move(temporary), fd));
}

StatusOr<std::unique_ptr<PendingFile>> PendingFile::CreateInPlace(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, "cannot open", errno);
  return std::unique_ptr<PendingFile>(new PendingFile(path, path, fd));
}

StatusOr<std::unique_ptr<PendingFile>> PendingFile::CreatePrivate(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return CannotCreate(path, temporary, errno);
  return std::unique_ptr<PendingFile>(new PendingFile(path, std::move(temporary), fd));
}

PendingFile::~PendingFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_ && !in_place() && unlink(temporary_.c_str()) != 0 && errno != ENOENT)
    PLOG(WARNING) << "cannot remove " << temporary_;
}

Status PendingFile::Write(std::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ = FileError(temporary_, "cannot write", errno);
    } else {
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  return status_;
}

Status PendingFile::Sync() {
  HP_RETURN_IF_ERROR(status_);
  if (!in_place() && fsync(fd_) != 0) return FileError(temporary_, "cannot sync", errno);
  if (close(std::exchange(fd_, -1)) != 0) return FileError(temporary_, "cannot close", errno);
  return OkStatus();
}

Status PendingFile::Commit() {
  CHECK_EQ(fd_, -1) << path_ << ": Commit() before Sync()";
  if (!in_place() && rename(temporary_.c_str(), path_.c_str()) != 0)
    return FileError(path_, "cannot rename the temporary file into place", errno);
  committed_ = true;
  return OkStatus();
}

Status SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(folder, "cannot open", errno);
  const int result = fsync(fd), error = errno;
  close(fd);
  // Some file systems cannot sync a folder; then its entries are as safe as they get.
  return result == 0 || error == EINVAL ? OkStatus() : FileError(folder, "cannot sync", error);
}

std::string ThroughLinks(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> target(realpath(path.c_str(), nullptr), &free);
  return target && !IsOpenStream(path) ? target.get() : path;
}

Status WriteWholeFile(const std::string& path, std::string_view bytes, const std::string& suffix) {
  HP_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(ThroughLinks(path), suffix));
  HP_RETURN_IF_ERROR(file->Write(bytes));
  HP_RETURN_IF_ERROR(file->Sync());
  HP_RETURN_IF_ERROR(file->Commit());
  return SyncFolderOf(path);
}

}  // namespace hp

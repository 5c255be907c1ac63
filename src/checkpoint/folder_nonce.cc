// The line of the host comes after the lock, so who reads it and can lock the file knows that its process is dead. A
// process that can't lock, or is no process of a node, writes no such line.
#include "checkpoint/folder_nonce.h"

#include "base/format.h"
#include "base/host.h"
#include "base/input_file.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kNonceName[] = ".hpnode_nonce_";
constexpr time_t kDaySeconds = 24 * 3600;

std::string LineOfThisHost() {
  const uint64_t host = HostId();
  return host == 0 ? "" : Format("host %016" PRIx64 "\n", host);
}

Status NonceError(const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT)
    return ResourceExhausted("%s: cannot write: %s", path.c_str(), strerror(error));
  return InvalidArgument("%s: cannot write: %s", path.c_str(), strerror(error));
}

/// Whether the process that made a nonce is dead. @param now by the clock of the folder.
bool IsStale(const std::string& path, int fd, time_t now) {
  struct stat info = {};
  if (fstat(fd, &info) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
  const StatusOr<std::string> text = ReadInputFile(path);
  const std::string own = LineOfThisHost();
  return now - info.st_mtime > kDaySeconds || (text.ok() && !own.empty() && text->ends_with("\n" + own));
}

void RemoveStale(const fs::path& folder, const std::string& except, time_t now) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with(kNonceName) || entry.path().filename() == except) continue;
    const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);  // NFS locks for writers alone
    if (fd < 0) continue;                                                             // gone, or of another user
    if (IsStale(path, fd, now) && unlink(path.c_str()) != 0 && errno != ENOENT) {
      PLOG(WARNING) << path << ", of a process that is dead, cannot be removed";
    }
    close(fd);
  }
}

}  // namespace

uint64_t FolderNonce::DrawNumber() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

std::string FolderNonce::PathOf(const std::string& prefix, uint64_t number) {
  return (fs::path(prefix).parent_path() / Format("%s%016" PRIx64, kNonceName, number)).string();
}

std::string FolderNonce::TextOf(uint64_t number) { return Format("%016" PRIx64 "\n", number); }

StatusOr<std::unique_ptr<FolderNonce>> FolderNonce::Create(const std::string& prefix) {
  const uint64_t number = DrawNumber();
  const std::string path = PathOf(prefix, number);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return NonceError(path, errno);
  std::unique_ptr<FolderNonce> nonce(new FolderNonce(path, number, fd));
  HP_RETURN_IF_ERROR(nonce->Write());
  struct stat info = {};
  if (fstat(fd, &info) == 0) {
    RemoveStale(fs::path(prefix).parent_path(), fs::path(path).filename().string(), info.st_mtime);
  }
  return nonce;
}

// Synced, since the file stays open: other hosts see it now.
Status FolderNonce::Write() {
  const bool locked = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  const std::string text = TextOf(number_) + (locked ? LineOfThisHost() : "");
  errno = ENOSPC;  // of a write that is cut short
  if (write(fd_, text.data(), text.size()) != std::ssize(text) || fsync(fd_) != 0) return NonceError(path_, errno);
  return OkStatus();
}

// Closed first: a network file system keeps what is removed while it is open.
FolderNonce::~FolderNonce() {
  close(fd_);
  unlink(path_.c_str());
}

bool FolderNonce::IsIn(const std::string& prefix, uint64_t number) {
  const StatusOr<std::string> text = ReadInputFile(PathOf(prefix, number));
  return text.ok() && text->starts_with(TextOf(number));
}

}  // namespace hp

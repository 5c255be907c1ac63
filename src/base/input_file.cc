#include "base/input_file.h"

#include "base/format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hp {
namespace {

constexpr size_t kPieceBytes = 64 << 10;

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "pipe";
  return S_ISSOCK(mode) ? "socket" : "device";
}

/// An error that says nothing of the file, but of this process or its host at this moment, is not the file's.
Status FaultOf(int error, const std::string& path, const char* what) {
  const bool is_file = error != EMFILE && error != ENFILE && error != ENOMEM && error != ESTALE;
  return Status(is_file ? StatusCode::kInvalidArgument : StatusCode::kResourceExhausted,
                Format("%s: cannot be %s: %s", path.c_str(), what, std::strerror(error)));
}

}  // namespace

StatusOr<int> OpenInputFile(const std::string& path) {
  // O_NONBLOCK: a pipe that nobody writes to opens at once; reads of regular files do not change by it.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return NotFound("%s: no such file", path.c_str());
  if (fd < 0) return FaultOf(errno, path, "opened");
  struct stat info = {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  return InvalidArgument("%s: is a %s, expected a file", path.c_str(), KindOf(info.st_mode));
}

StatusOr<std::string> ReadInputFile(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  const struct CloseFile {
    int fd;
    ~CloseFile() { close(fd); }
  } closer{fd};
  std::string bytes;
  for (;;) {
    const size_t before = bytes.size();
    bytes.resize(before + kPieceBytes);
    const ssize_t more = read(fd, bytes.data() + before, kPieceBytes);
    bytes.resize(before + (more > 0 ? static_cast<size_t>(more) : 0));
    if (more == 0) return bytes;
    if (more < 0 && errno != EINTR) return FaultOf(errno, path, "read");
  }
}

}  // namespace hp

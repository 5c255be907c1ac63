#include "rendezvous/file_seam.h"

#include "base/format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace hp {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;

Status FileError(const std::string& path, int error) {
  return Unavailable("%s: %s", path.c_str(), std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

class SystemFiles : public FileSeam {
 public:
  Status MakeFolder(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (std::filesystem::is_directory(path)) return OkStatus();
    return InvalidArgument("%s: %s; expected a folder that all nodes see", path.c_str(),
                           error ? error.message().c_str() : "is no folder");
  }

  Status WriteFile(const std::string& path, std::string_view bytes) override {
    const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) return FileError(path, errno);
    while (!bytes.empty()) {
      const ssize_t written = write(file.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError(path, errno);
      bytes.remove_prefix(written);
    }
    return fsync(file.get()) == 0 ? OkStatus() : FileError(path, errno);
  }

  Status Touch(const std::string& path) override {
    const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return file.get() < 0 ? FileError(path, errno) : OkStatus();
  }

  Status Link(const std::string& from, const std::string& to) override {
    return link(from.c_str(), to.c_str()) == 0 ? OkStatus() : FileError(to, errno);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0 ? OkStatus() : FileError(to, errno);
  }

  Status Remove(const std::string& path) override {
    return unlink(path.c_str()) == 0 || errno == ENOENT ? OkStatus() : FileError(path, errno);
  }

  StatusOr<int> CountLinks(const std::string& path) override {
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info = {};
    if (file.get() < 0 || fstat(file.get(), &info) != 0) return FileError(path, errno);
    return static_cast<int>(info.st_nlink);
  }

  StatusOr<std::optional<std::string>> ReadFile(const std::string& path) override {
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    // ESTALE: another host has put a new file in its place.
    if (file.get() < 0 && (errno == ENOENT || errno == ESTALE)) return std::optional<std::string>();
    if (file.get() < 0) return FileError(path, errno);
    std::string bytes;
    char buffer[16 << 10];
    while (bytes.size() <= kMostFileBytes) {
      const ssize_t got = read(file.get(), buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == ESTALE) return std::optional<std::string>();
      if (got < 0) return FileError(path, errno);
      if (got == 0) return std::optional(std::move(bytes));
      bytes.append(buffer, got);
    }
    return DataLoss("%s: is longer than any entry", path.c_str());
  }

  StatusOr<std::vector<std::string>> ListFolder(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) return Unavailable("%s: %s", path.c_str(), error.message().c_str());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

FileSeam* FileSeam::Real() {
  static SystemFiles files;
  return &files;
}

}  // namespace hp

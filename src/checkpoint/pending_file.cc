#include "checkpoint/pending_file.h"

#include "glog/logging.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace hp {
namespace {

constexpr int kBlockBytes = 1 << 20;

Status FileError(const std::string& path, const char* what, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return ResourceExhausted("%s: %s: %s", path.c_str(), what, strerror(error));
  }
  if (error == ENOENT) return NotFound("%s: %s: %s", path.c_str(), what, strerror(error));
  return InvalidArgument("%s: %s: %s", path.c_str(), what, strerror(error));
}

// Feeds a file descriptor and a running checksum; keeps the first error.
class SummingOutput : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit SummingOutput(int fd) : fd_(fd) { XXH64_reset(&sum_, 0); }

  bool Write(const void* data, int size) override {
    XXH64_update(&sum_, data, size);
    bytes_ += size;
    for (int done = 0; done < size;) {
      const ssize_t written = write(fd_, static_cast<const char*>(data) + done, size - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) error_ = errno;
      if (written < 0) return false;
      done += written;
    }
    return true;
  }
  int error() const { return error_; }
  int64_t bytes() const { return bytes_; }
  uint64_t xxh64() const { return XXH64_digest(&sum_); }

 private:
  const int fd_;
  XXH64_state_t sum_;
  int64_t bytes_ = 0;
  int error_ = 0;
};

class PosixPendingFile : public PendingFile {
 public:
  PosixPendingFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd), output_(fd) {
    stream_.emplace(&output_, kBlockBytes);
  }
  ~PosixPendingFile() override {
    stream_.reset();
    if (fd_ >= 0) close(fd_);
    if (!committed_ && unlink(temporary_.c_str()) != 0) PLOG(WARNING) << "cannot remove " << temporary_;
  }

  google::protobuf::io::ZeroCopyOutputStream* stream() override { return &*stream_; }

  Status Sync() override {
    // A short write shows as an error of the stream; its cause is in `output_`.
    const bool flushed = stream_->Flush();
    if (!flushed || output_.error() != 0) return FileError(temporary_, "cannot write", output_.error());
    if (fsync(fd_) != 0) return FileError(temporary_, "cannot sync", errno);
    if (close(std::exchange(fd_, -1)) != 0) return FileError(temporary_, "cannot close", errno);
    return OkStatus();
  }

  Status Commit() override {
    CHECK_EQ(fd_, -1) << path_ << " was not synced";
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return FileError(path_, "cannot be put into place", errno);
    committed_ = true;
    return OkStatus();
  }

  const std::string& path() const override { return path_; }
  int64_t bytes() const override { return output_.bytes(); }
  uint64_t xxh64() const override { return output_.xxh64(); }

 private:
  const std::string path_, temporary_;
  int fd_;
  bool committed_ = false;
  SummingOutput output_;
  std::optional<google::protobuf::io::CopyingOutputStreamAdaptor> stream_;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

StatusOr<std::unique_ptr<PendingFile>> PendingFile::Create(const std::string& path) {
  std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    if (errno == ENOENT) {
      return InvalidArgument("%s: the folder %s does not exist", path.c_str(), FolderOf(path).c_str());
    }
    return FileError(temporary, "cannot create", errno);
  }
  return std::unique_ptr<PendingFile>(std::make_unique<PosixPendingFile>(path, std::move(temporary), fd));
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

StatusOr<FileSum> SumFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, "cannot open", errno);
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  FileSum sum;
  std::vector<char> block(kBlockBytes);
  ssize_t bytes = 0;
  while ((bytes = read(fd, block.data(), block.size())) != 0) {
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) break;
    XXH64_update(&state, block.data(), bytes);
    sum.bytes += bytes;
  }
  const int error = errno;
  close(fd);
  if (bytes < 0) return FileError(path, "cannot read", error);
  sum.xxh64 = XXH64_digest(&state);
  return sum;
}

}  // namespace hp

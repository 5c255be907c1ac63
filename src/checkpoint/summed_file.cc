#include "checkpoint/summed_file.h"

#include "base/input_file.h"
#include "base/pending_file.h"

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace hp {
namespace {

constexpr int kBlockBytes = 1 << 20;

// Feeds a file and a running checksum.
class SummingOutput : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit SummingOutput(PendingFile* file) : file_(file) { XXH64_reset(&sum_, 0); }

  bool Write(const void* data, int size) override {
    XXH64_update(&sum_, data, size);
    bytes_ += size;
    return file_->Write({static_cast<const char*>(data), static_cast<size_t>(size)}).ok();
  }
  int64_t bytes() const { return bytes_; }
  uint64_t xxh64() const { return XXH64_digest(&sum_); }

 private:
  PendingFile* const file_;
  XXH64_state_t sum_;
  int64_t bytes_ = 0;
};

class PendingSummedFile : public SummedFile {
 public:
  explicit PendingSummedFile(std::unique_ptr<PendingFile> file) : file_(std::move(file)), output_(file_.get()) {
    stream_.emplace(&output_, kBlockBytes);
  }

  google::protobuf::io::ZeroCopyOutputStream* stream() override { return &*stream_; }
  Status Sync() override {
    stream_->Flush();
    return file_->Sync();  // knows why a write fell short
  }
  Status Commit() override { return file_->Commit(); }

  const std::string& path() const override { return file_->path(); }
  int64_t bytes() const override { return output_.bytes(); }
  uint64_t xxh64() const override { return output_.xxh64(); }

 private:
  const std::unique_ptr<PendingFile> file_;
  SummingOutput output_;
  std::optional<google::protobuf::io::CopyingOutputStreamAdaptor> stream_;  // flushes into output_ on destruction
};

}  // namespace

StatusOr<std::unique_ptr<SummedFile>> SummedFile::Create(const std::string& path, const std::string& suffix) {
  HP_ASSIGN_OR_RETURN(auto file, PendingFile::Create(path, suffix));
  return std::unique_ptr<SummedFile>(std::make_unique<PendingSummedFile>(std::move(file)));
}

StatusOr<FileSum> SumFile(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
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
  if (bytes < 0) return InvalidArgument("%s: cannot be read: %s", path.c_str(), strerror(error));
  sum.xxh64 = XXH64_digest(&state);
  return sum;
}

}  // namespace hp

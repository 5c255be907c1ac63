#include "tools/cluster/file_transfer.h"

#include "base/input_file.h"
#include "checkpoint/summed_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace hp {
namespace {

constexpr size_t kBytesOfChunk = 1 << 20;

bool IsSame(const FileSum& sum, const FilePut& put) { return sum.bytes == put.bytes() && sum.xxh64 == put.xxh64(); }

}  // namespace

StatusOr<std::unique_ptr<FileSender>> FileSender::Open(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  return std::unique_ptr<FileSender>(new FileSender(path, fd));
}

FileSender::~FileSender() { close(fd_); }

StatusOr<FileChunk> FileSender::Next() {
  FileChunk chunk;
  std::string* data = chunk.mutable_data();
  data->resize(kBytesOfChunk);
  size_t filled = 0;
  while (filled < data->size()) {
    const ssize_t more = read(fd_, data->data() + filled, data->size() - filled);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return InvalidArgument("%s: cannot be read: %s", path_.c_str(), std::strerror(errno));
    if (more == 0) break;
    filled += static_cast<size_t>(more);
  }
  chunk.set_last(filled < data->size());
  data->resize(filled);
  return chunk;
}

StatusOr<FilePut> DescribeFile(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const FileSum sum, SumFile(path));
  FilePut put;
  put.set_path(path);
  put.set_bytes(sum.bytes);
  put.set_xxh64(sum.xxh64);
  return put;
}

StatusOr<bool> FileReceiver::Begin(const FilePut& put) {
  put_ = put;
  const StatusOr<FileSum> there = SumFile(put.path());
  if (there.ok() && IsSame(*there, put)) return false;
  HP_RETURN_IF_ERROR(MakeFolder(std::filesystem::path(put.path()).parent_path().string()));
  HP_ASSIGN_OR_RETURN(file_, PendingFile::Create(put.path(), ".part"));
  return true;
}

StatusOr<bool> FileReceiver::Add(const FileChunk& chunk) {
  if (file_ == nullptr) return InternalError("a piece of a file that was not announced");
  Status status = file_->Write(chunk.data());
  if (status.ok() && !chunk.last()) return false;
  if (status.ok()) status = file_->Sync();
  if (status.ok()) status = file_->Commit();
  file_ = nullptr;
  HP_RETURN_IF_ERROR(status);
  HP_ASSIGN_OR_RETURN(const FileSum sum, SumFile(put_.path()));
  if (!IsSame(sum, put_)) return DataLoss("%s: was changed while it was copied", put_.path().c_str());
  return true;
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return OkStatus();
  const bool full = error == std::errc::no_space_on_device;
  return Status(full ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument,
                path + ": the folder cannot be made: " + error.message());
}

}  // namespace hp

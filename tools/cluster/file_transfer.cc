#include "tools/cluster/file_transfer.h"

#include "base/folder.h"
#include "base/input_file.h"

#include "google/protobuf/io/coded_stream.h"
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

// The sum of a file takes as long as to read it: only one that may be the same is worth it.
StatusOr<bool> FileReceiver::Begin(const FilePut& put) {
  put_ = put;
  std::error_code error;
  const auto there = std::filesystem::file_size(put.path(), error);
  if (!error && static_cast<int64_t>(there) == put.bytes()) {
    const StatusOr<FileSum> sum = SumFile(put.path());
    if (sum.ok() && IsSame(*sum, put)) return false;
  }
  HP_RETURN_IF_ERROR(MakeFolder(std::filesystem::path(put.path()).parent_path().string()));
  HP_ASSIGN_OR_RETURN(file_, SummedFile::Create(put.path(), suffix_));
  return true;
}

StatusOr<bool> FileReceiver::Add(const FileChunk& chunk) {
  if (file_ == nullptr) return InternalError("a piece of a file that was not announced");
  WriteTo(file_.get(), chunk.data());
  if (!chunk.last()) return false;
  const std::unique_ptr<SummedFile> file = std::move(file_);
  HP_RETURN_IF_ERROR(file->Sync());
  if (!IsSame({file->bytes(), file->xxh64()}, put_)) {
    return DataLoss("%s: was changed while it was copied", put_.path().c_str());
  }
  HP_RETURN_IF_ERROR(file->Commit());
  return true;
}

void WriteTo(SummedFile* file, const std::string& data) {
  if (data.empty()) return;
  google::protobuf::io::CodedOutputStream out(file->stream());
  out.WriteString(data);
}

}  // namespace hp

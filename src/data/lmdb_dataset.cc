// Open reads the meta pages, then takes the index from the cache or walks all branch and leaf pages, which makes it.
// The index says where each value lies, so Read needs no tree. The cached index is of a file that was walked: it is
// believed for the same path, size, time and transaction. Bytes that rot without a new time are still found where they
// matter, since Read checks what stands in front of a value, and nothing is read at an unchecked number.
#include "data/lmdb_dataset.h"

#include "base/format.h"
#include "data/cache_dir.h"
#include "data/progress.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hp {
namespace {

constexpr uint64_t kReadsPerPathCheck = 64;

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status CannotOpen(const std::string& path, const std::string& file, int error) {
  if (error != ENOENT) return InvalidArgument("database %s can't be read: %s", file.c_str(), std::strerror(error));
  const bool leveldb = IdentityOf(path + "/CURRENT").has_value();
  if (leveldb) return InvalidArgument("%s is a LevelDB, not an LMDB database: its backend is LEVELDB", path.c_str());
  return InvalidArgument("%s is not an LMDB database: it has no file data.mdb", path.c_str());
}

}  // namespace

StatusOr<std::unique_ptr<Dataset>> LmdbDataset::Open(const std::string& source, const std::string& path,
                                                     const DatasetOptions& options) {
  const std::string file = IsFolder(path) ? path + "/data.mdb" : path;
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotOpen(path, file, errno);
  auto dataset = std::unique_ptr<LmdbDataset>(new LmdbDataset(source, file, fd));
  HP_ASSIGN_OR_RETURN(dataset->meta_, ReadLmdbMeta(dataset->file_));
  HP_RETURN_IF_ERROR(dataset->LoadIndex(options));
  return std::unique_ptr<Dataset>(std::move(dataset));
}

LmdbDataset::LmdbDataset(const std::string& source, const std::string& path, int fd)
    : Dataset(source), path_(path), fd_(fd), identity_(IdentityOf(fd).value_or(FileIdentity{})) {
  file_.name = path;
  file_.bytes = static_cast<uint64_t>(identity_.size);
  file_.read = [this](uint64_t offset, size_t count, char* to) { return ReadFile(offset, count, to); };
}

LmdbDataset::~LmdbDataset() { close(fd_); }

Status LmdbDataset::ReadFile(uint64_t offset, size_t count, char* to) const {
  while (count > 0) {
    const ssize_t n = pread(fd_, to, count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return DataLoss("database %s can't be read at byte %llu: %s", path_.c_str(),
                      static_cast<unsigned long long>(offset), n == 0 ? "it was truncated" : std::strerror(errno));
    }
    offset += static_cast<uint64_t>(n);
    count -= static_cast<size_t>(n);
    to += n;
  }
  return OkStatus();
}

Status LmdbDataset::LoadIndex(const DatasetOptions& options) {
  const IndexCache cache(CacheDirectory(options.cache_dir), path_);
  const std::string identity =
      Format("%s\n%lld %lld %llu\n", path_.c_str(), static_cast<long long>(identity_.size),
             static_cast<long long>(identity_.mtime_ns), static_cast<unsigned long long>(meta_.transaction));
  if (cache.Load(identity, &index_) && index_.has_values()) return OkStatus();
  const Status scanned = Scan(options.clock);
  HP_RETURN_IF_ERROR(CheckUnchanged());  // the cause, if there is an error
  HP_RETURN_IF_ERROR(scanned);
  cache.Save(identity, index_);
  return OkStatus();
}

Status LmdbDataset::Scan(const Clock* clock) {
  index_ = RecordIndex();
  Progress progress("Indexing " + source(), static_cast<int64_t>(meta_.records), clock);
  return WalkLmdb(file_, meta_, [&](std::string_view key, Extent value) {
    index_.Append(key, value);
    progress.Count(value.bytes);
  });
}

Status LmdbDataset::CheckUnchanged() {
  if (IdentityOf(fd_) == identity_ && IdentityOf(path_) == identity_) return OkStatus();
  return FailedPrecondition("database %s was replaced, truncated or changed while it was being read", path_.c_str());
}

// The file is looked at after the bytes were read: if it is the same then, they are of the state at Open.
Status LmdbDataset::Read(int64_t record, std::string* bytes) {
  CHECK_GE(record, 0);
  CHECK_LT(record, size());
  const Status read = ReadLmdbRecord(file_, meta_, index_.key(record), index_.value(record), bytes);
  const bool look_at_path =
      reads_.fetch_add(1, std::memory_order_relaxed) % kReadsPerPathCheck == kReadsPerPathCheck - 1;
  if (look_at_path || !read.ok() || IdentityOf(fd_) != identity_) HP_RETURN_IF_ERROR(CheckUnchanged());
  return read.ok() ? read : read.Prepend(Describe(record));
}

}  // namespace hp

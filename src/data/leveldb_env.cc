// Two layers: LevelDB's in-memory Env holds everything that LevelDB writes; what is not found there is read from the
// disk, unless LevelDB has removed it (hidden_). Table files check every 64 reads that they are still the file that was
// opened.
#include "data/leveldb_env.h"

#include "base/format.h"

#include <fcntl.h>
#include <leveldb/helpers/memenv.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace hp {
namespace {

using leveldb::Slice;
using Result = leveldb::Status;

constexpr uint32_t kReadsPerCheck = 64;

// By shared pointer, so that a name costs no copy for each read.
thread_local std::shared_ptr<const std::string> last_file_read;

Result SystemError(const std::string& path, int error) {
  return error == ENOENT ? Result::NotFound(path, std::strerror(error)) : Result::IOError(path, std::strerror(error));
}

class BaseFile {
 public:
  BaseFile(const std::string& path, int fd)
      : path_(std::make_shared<const std::string>(path)), fd_(fd), identity_(IdentityOf(fd)) {}
  ~BaseFile() { close(fd_); }

  // Fewer than `size` bytes only at the end of the file.
  Result ReadAt(uint64_t offset, size_t size, char* out, size_t* got) const {
    last_file_read = path_;
    *got = 0;
    while (*got < size) {
      const ssize_t n = pread(fd_, out + *got, size - *got, static_cast<off_t>(offset + *got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return SystemError(*path_, errno);
      if (n == 0) break;
      *got += static_cast<size_t>(n);
    }
    return Result::OK();
  }
  const std::optional<FileIdentity>& identity() const { return identity_; }
  bool Changed() const { return IdentityOf(fd_) != identity_; }
  const std::string& path() const { return *path_; }

 private:
  const std::shared_ptr<const std::string> path_;
  const int fd_;
  const std::optional<FileIdentity> identity_;
};

class TableFile : public leveldb::RandomAccessFile {
 public:
  TableFile(const std::string& path, int fd) : file_(path, fd) {}
  const std::optional<FileIdentity>& identity() const { return file_.identity(); }

  Result Read(uint64_t offset, size_t size, Slice* result, char* scratch) const override {
    if (reads_.fetch_add(1, std::memory_order_relaxed) % kReadsPerCheck == kReadsPerCheck - 1 && file_.Changed()) {
      return Result::IOError(file_.path(), "was changed while it was being read");
    }
    size_t got = 0;
    const Result status = file_.ReadAt(offset, size, scratch, &got);
    *result = Slice(scratch, got);
    // No table is read beyond its end, unless it was cut.
    if (status.ok() && got < size) {
      return Result::Corruption(file_.path(), Format("truncated: %zu bytes at offset %llu are missing", size,
                                                     static_cast<unsigned long long>(offset)));
    }
    return status;
  }

 private:
  const BaseFile file_;
  mutable std::atomic<uint32_t> reads_{0};
};

class LogFile : public leveldb::SequentialFile {
 public:
  LogFile(const std::string& path, int fd) : file_(path, fd) {}

  Result Read(size_t size, Slice* result, char* scratch) override {
    size_t got = 0;
    const Result status = file_.ReadAt(offset_, size, scratch, &got);
    offset_ += got;
    *result = Slice(scratch, got);
    return status;
  }
  Result Skip(uint64_t size) override {
    offset_ += size;
    return Result::OK();
  }

 private:
  const BaseFile file_;
  uint64_t offset_ = 0;
};

class NoLock : public leveldb::FileLock {};

class SilentLogger : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

template <typename File>
Result OpenBase(const std::string& path, std::unique_ptr<File>* file) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, errno);
  *file = std::make_unique<File>(path, fd);
  return Result::OK();
}

}  // namespace

ReadOnlyEnv::ReadOnlyEnv()
    : leveldb::EnvWrapper(leveldb::Env::Default()), memory_(leveldb::NewMemEnv(leveldb::Env::Default())) {}

ReadOnlyEnv::~ReadOnlyEnv() = default;

std::string ReadOnlyEnv::LastFileRead() { return last_file_read == nullptr ? std::string() : *last_file_read; }

bool ReadOnlyEnv::Hidden(const std::string& path) {
  MutexLock lock(&mutex_);
  return hidden_.contains(path);
}

std::optional<FileIdentity> ReadOnlyEnv::Expected(const std::string& path) {
  MutexLock lock(&mutex_);
  const auto found = expected_.find(path);
  return found == expected_.end() ? std::nullopt : std::optional(found->second);
}

void ReadOnlyEnv::Expect(std::map<std::string, FileIdentity> tables) {
  MutexLock lock(&mutex_);
  expected_ = std::move(tables);
}

void ReadOnlyEnv::Seal() {
  std::vector<std::pair<void (*)(void*), void*>> waiting;
  {
    MutexLock lock(&mutex_);
    sealed_ = true;
    waiting.swap(waiting_);
  }
  for (const auto& [function, argument] : waiting) target()->Schedule(function, argument);
}

// Before Seal a compaction could copy the whole database into memory.
void ReadOnlyEnv::Schedule(void (*function)(void*), void* argument) {
  {
    MutexLock lock(&mutex_);
    if (!sealed_) {
      waiting_.emplace_back(function, argument);
      return;
    }
  }
  target()->Schedule(function, argument);
}

Result ReadOnlyEnv::NewSequentialFile(const std::string& path, leveldb::SequentialFile** file) {
  if (memory_->FileExists(path)) return memory_->NewSequentialFile(path, file);
  *file = nullptr;
  if (Hidden(path)) return SystemError(path, ENOENT);
  std::unique_ptr<LogFile> base;
  const Result status = OpenBase(path, &base);
  *file = base.release();
  return status;
}

Result ReadOnlyEnv::NewRandomAccessFile(const std::string& path, leveldb::RandomAccessFile** file) {
  if (memory_->FileExists(path)) return memory_->NewRandomAccessFile(path, file);
  *file = nullptr;
  if (Hidden(path)) return SystemError(path, ENOENT);
  std::unique_ptr<TableFile> base;
  if (const Result status = OpenBase(path, &base); !status.ok()) return status;
  if (const auto expected = Expected(path); expected && expected != base->identity()) {
    return Result::IOError(path, "was replaced");
  }
  *file = base.release();
  return Result::OK();
}

Result ReadOnlyEnv::NewWritableFile(const std::string& path, leveldb::WritableFile** file) {
  {
    MutexLock lock(&mutex_);
    if (sealed_) {
      *file = nullptr;
      return Result::IOError(path, "the database is open for reading only");
    }
  }
  return memory_->NewWritableFile(path, file);
}

// LevelDB appends to existing files only with Options::reuse_logs, which we leave off.
Result ReadOnlyEnv::NewAppendableFile(const std::string& path, leveldb::WritableFile** file) {
  *file = nullptr;
  return Result::NotSupported(path, "the database is open for reading only");
}

bool ReadOnlyEnv::FileExists(const std::string& path) {
  return memory_->FileExists(path) || (!Hidden(path) && target()->FileExists(path));
}

Result ReadOnlyEnv::GetChildren(const std::string& folder, std::vector<std::string>* names) {
  std::vector<std::string> on_disk, in_memory;
  const Result status = target()->GetChildren(folder, &on_disk);
  if (!status.ok()) return status;
  memory_->GetChildren(folder, &in_memory);
  std::set<std::string> all(in_memory.begin(), in_memory.end());
  for (const std::string& name : on_disk) {
    if (!Hidden(folder + "/" + name)) all.insert(name);
  }
  names->assign(all.begin(), all.end());
  return Result::OK();
}

Result ReadOnlyEnv::RemoveFile(const std::string& path) {
  if (memory_->FileExists(path)) memory_->RemoveFile(path);
  MutexLock lock(&mutex_);
  hidden_.insert(path);
  return Result::OK();
}

Result ReadOnlyEnv::CreateDir(const std::string&) { return Result::OK(); }
Result ReadOnlyEnv::RemoveDir(const std::string&) { return Result::OK(); }

Result ReadOnlyEnv::GetFileSize(const std::string& path, uint64_t* size) {
  if (memory_->FileExists(path)) return memory_->GetFileSize(path, size);
  if (Hidden(path)) return SystemError(path, ENOENT);
  return target()->GetFileSize(path, size);
}

// LevelDB renames only what it has just written (the new CURRENT).
Result ReadOnlyEnv::RenameFile(const std::string& from, const std::string& to) {
  if (!memory_->FileExists(from)) return Result::NotSupported(from, "the database is open for reading only");
  return memory_->RenameFile(from, to);
}

Result ReadOnlyEnv::LockFile(const std::string&, leveldb::FileLock** lock) {
  *lock = new NoLock;
  return Result::OK();
}

Result ReadOnlyEnv::UnlockFile(leveldb::FileLock* lock) {
  delete lock;
  return Result::OK();
}

Result ReadOnlyEnv::NewLogger(const std::string&, leveldb::Logger** logger) {
  *logger = new SilentLogger;
  return Result::OK();
}

}  // namespace hp

#pragma once

#include "base/mutex.h"
#include "data/file_identity.h"

#include <leveldb/env.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// A leveldb::Env that shows a database as it lies on the disk and keeps to itself whatever LevelDB writes: recovery's
/// new log, MANIFEST, CURRENT and tables, renames and removals happen in memory. Nobody's lock is taken.
///
/// Files are read with pread, not mmap: a file that somebody truncates under way is then an error and not a SIGBUS.
/// Errors name the file. After Seal() nothing can be written in memory either, which ends LevelDB's attempts to compact
/// (its first one fails, and after a failure it only reads).
class ReadOnlyEnv : public leveldb::EnvWrapper {
 public:
  ReadOnlyEnv();
  ~ReadOnlyEnv() override;

  /// Recovery is over: background work that LevelDB asked for meanwhile begins, and can write no files.
  void Seal() HP_EXCLUDES(mutex_);
  /// Tables that must still be what they were: opening another one at the same path is an error.
  void Expect(std::map<std::string, FileIdentity> tables) HP_EXCLUDES(mutex_);
  /// Whether `path` was written by this process, in memory.
  bool InMemory(const std::string& path) { return memory_->FileExists(path); }
  /// The file that the calling thread read last, to name in errors that LevelDB reports without a name; may be empty.
  static std::string LastFileRead();

  leveldb::Status NewSequentialFile(const std::string& path, leveldb::SequentialFile** file) override;
  leveldb::Status NewRandomAccessFile(const std::string& path, leveldb::RandomAccessFile** file) override;
  leveldb::Status NewWritableFile(const std::string& path, leveldb::WritableFile** file) override;
  leveldb::Status NewAppendableFile(const std::string& path, leveldb::WritableFile** file) override;
  bool FileExists(const std::string& path) override;
  leveldb::Status GetChildren(const std::string& folder, std::vector<std::string>* names) override;
  leveldb::Status RemoveFile(const std::string& path) override HP_EXCLUDES(mutex_);
  leveldb::Status CreateDir(const std::string& folder) override;
  leveldb::Status RemoveDir(const std::string& folder) override;
  leveldb::Status GetFileSize(const std::string& path, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& path, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*function)(void*), void* argument) override HP_EXCLUDES(mutex_);
  leveldb::Status NewLogger(const std::string& path, leveldb::Logger** logger) override;

 private:
  bool Hidden(const std::string& path) HP_EXCLUDES(mutex_);
  std::optional<FileIdentity> Expected(const std::string& path) HP_EXCLUDES(mutex_);

  const std::unique_ptr<leveldb::Env> memory_;  // LevelDB's own in-memory Env holds what is written
  Mutex mutex_;
  std::set<std::string> hidden_ HP_GUARDED_BY(mutex_);  // files on the disk that count as removed
  bool sealed_ HP_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<void (*)(void*), void*>> waiting_ HP_GUARDED_BY(mutex_);
  std::map<std::string, FileIdentity> expected_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp

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

/// A leveldb::Env with which LevelDB opens a database without changing anything on the disk. LevelDB reads the files of
/// the folder; what it writes during recovery (log, MANIFEST, CURRENT, tables), renames and removals stay in memory,
/// and its lock file is not taken. One Env for one database; it must outlive the leveldb::DB.
///
/// Files are read with pread, not mmap, so that a file that is truncated meanwhile gives an error instead of SIGBUS.
/// Errors name the file. After Seal() nothing can be written in memory either, so LevelDB's first compaction fails, and
/// after that failure it only reads. Any thread.
class ReadOnlyEnv : public leveldb::EnvWrapper {
 public:
  ReadOnlyEnv();
  ~ReadOnlyEnv() override;

  /// Call when leveldb::DB::Open has returned, so recovery is over: from then on no file can be created, and background
  /// work that LevelDB has scheduled so far starts.
  void Seal() HP_EXCLUDES(mutex_);
  /// Sets the tables of the database, by path: opening a table that has become another file is an error from then on.
  void Expect(std::map<std::string, FileIdentity> tables) HP_EXCLUDES(mutex_);
  /// Whether `path` was written by this process, in memory.
  bool InMemory(const std::string& path) { return memory_->FileExists(path); }
  /// The file that the calling thread read last, to name it in errors that LevelDB reports without a name; empty: none.
  static std::string LastFileRead();

  // leveldb::Env, see leveldb/env.h.
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

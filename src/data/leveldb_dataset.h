#pragma once

#include "base/mutex.h"
#include "data/dataset.h"
#include "data/file_identity.h"
#include "data/index.h"
#include "data/leveldb_env.h"

#include <leveldb/db.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// A Dataset in a LevelDB folder, read through ReadOnlyEnv. Records that are read in ascending order come from
/// iterators, of which up to 8 are kept, each at the last record that it read; others are looked up by key. Any thread.
class LevelDbDataset : public Dataset {
 public:
  /// Dataset::Open for this backend. @param path `source` without symbolic links; an existing folder.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& source, const std::string& path,
                                                 const DatasetOptions& options);

  int64_t size() const override { return index_.size(); }
  std::string_view key(int64_t record) const override { return index_.key(record); }
  Status Read(int64_t record, std::string* bytes) override HP_EXCLUDES(mutex_);
  Status CheckUnchanged() override HP_EXCLUDES(mutex_);

 private:
  // An iterator that stands at `record`.
  struct Cursor {
    std::unique_ptr<leveldb::Iterator> iterator;
    int64_t record = -1;
  };

  LevelDbDataset(const std::string& source, const std::string& path);
  leveldb::Status OpenDb();
  Status OpenStable(std::string* identity);
  Status OpenOnce() HP_EXCLUDES(mutex_);
  Status FindTables();
  Status LoadIndex(const std::string& identity, const DatasetOptions& options);
  Status Scan(const Clock* clock);

  Status CheckNowAndThen();
  bool TakeCursor(int64_t record, Cursor* cursor) HP_EXCLUDES(mutex_);
  Status ReadByCursor(int64_t record, Cursor cursor, std::string* bytes) HP_EXCLUDES(mutex_);
  Status ReadByKey(int64_t record, std::string* bytes) HP_EXCLUDES(mutex_);
  Status Failed(const std::string& what, const leveldb::Status& status);

  const std::string path_;
  RecordIndex index_;
  std::unique_ptr<leveldb::Logger> logger_;
  std::unique_ptr<ReadOnlyEnv> env_;
  std::unique_ptr<leveldb::DB> db_;
  std::map<std::string, FileIdentity> tables_;  // those on the disk that the database consists of

  std::atomic<uint64_t> reads_{0};
  Mutex mutex_;
  FileIdentity folder_ HP_GUARDED_BY(mutex_);
  FileIdentity current_ HP_GUARDED_BY(mutex_);  // of the file CURRENT
  std::vector<Cursor> cursors_ HP_GUARDED_BY(mutex_);
  std::array<int64_t, 8> expected_ HP_GUARDED_BY(mutex_) = {};  // successors of records lately read by key
  size_t next_expected_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace hp

#pragma once

#include "data/dataset.h"
#include "data/file_identity.h"
#include "data/index.h"
#include "data/lmdb_pages.h"

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

/// A Dataset in an LMDB environment: no lock file, no reader table, any number of processes. It reads the file itself
/// and with pread (lmdb_pages.h says why not by liblmdb), so damaged pages and a file that is cut or replaced at any
/// time are errors. Any thread.
class LmdbDataset : public Dataset {
 public:
  /// Dataset::Open for this backend. @param path `source` without symbolic links: a folder with a data.mdb, or such a
  /// file.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& source, const std::string& path,
                                                 const DatasetOptions& options);
  ~LmdbDataset() override;

  int64_t size() const override { return index_.size(); }
  std::string_view key(int64_t record) const override { return index_.key(record); }
  Status Read(int64_t record, std::string* bytes) override;
  Status CheckUnchanged() override;

 private:
  LmdbDataset(const std::string& source, const std::string& path, int fd);
  Status LoadIndex(const DatasetOptions& options);
  Status Scan(const Clock* clock);
  Status ReadFile(uint64_t offset, size_t count, char* to) const;

  const std::string path_;  // .../data.mdb
  const int fd_;
  FileIdentity identity_;
  LmdbFile file_;
  LmdbMeta meta_;
  RecordIndex index_;
  std::atomic<uint64_t> reads_{0};
};

}  // namespace hp

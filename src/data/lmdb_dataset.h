#pragma once

#include "base/mutex.h"
#include "data/dataset.h"
#include "data/file_identity.h"
#include "data/index.h"

#include <lmdb.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// A Dataset in an LMDB environment, opened with MDB_RDONLY | MDB_NOLOCK: no lock file, no reader table, any number of
/// processes. LMDB reads through a memory map, so the file's size and times are checked before every read: a truncated
/// file is an error, but one that is cut in the middle of a read can still end the process by SIGBUS. Any thread; each
/// read uses a read transaction that no other thread has.
class LmdbDataset : public Dataset {
 public:
  /// Dataset::Open for this backend. @param path `source` without symbolic links: a folder with a data.mdb, or such a
  /// file.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& source, const std::string& path,
                                                 const DatasetOptions& options);
  ~LmdbDataset() override;

  int64_t size() const override { return index_.size(); }
  std::string_view key(int64_t record) const override { return index_.key(record); }
  Status Read(int64_t record, std::string* bytes) override HP_EXCLUDES(mutex_);
  Status CheckUnchanged() override;

 private:
  struct EnvClose {
    void operator()(MDB_env* env) const { mdb_env_close(env); }
  };
  struct TxnAbort {
    void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
  };
  using Txn = std::unique_ptr<MDB_txn, TxnAbort>;

  LmdbDataset(const std::string& source, const std::string& file) : Dataset(source), file_(file) {}
  Status OpenEnv(bool is_file);
  Status CheckComplete();
  Status OpenDb();
  Status LoadIndex(const DatasetOptions& options);
  Status Scan(const Clock* clock);
  StatusOr<Txn> TakeTxn() HP_EXCLUDES(mutex_);
  Status Failed(const std::string& what, int error);

  const std::string file_;  // .../data.mdb
  RecordIndex index_;
  std::unique_ptr<MDB_env, EnvClose> env_;
  MDB_dbi dbi_ = 0;
  size_t snapshot_ = 0;  // the number of LMDB's transaction that we read
  FileIdentity identity_;
  std::atomic<uint64_t> reads_{0};
  Mutex mutex_;
  std::vector<Txn> idle_ HP_GUARDED_BY(mutex_);  // one thread at a time may use a transaction
};

}  // namespace hp

#pragma once

#include "base/clock.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hp {

enum class DbBackend { kLevelDb, kLmdb };

/// "leveldb" or "lmdb", in any case. @return kInvalidArgument for anything else.
StatusOr<DbBackend> ParseDbBackend(std::string_view name);
const char* DbBackendName(DbBackend backend);

struct DatasetOptions {
  /// Where the record index is kept between runs. Empty: $XDG_CACHE_HOME/hpnode, or ~/.cache/hpnode. "none": nowhere.
  /// A folder that can't be written costs a scan in each run, not an error.
  std::string cache_dir;
  /// Put in front of what goes wrong at Open, e.g. `train.prototxt layer "cifar" data_param.source`.
  std::string hint;
  /// For the progress of the scan.
  const Clock* clock = Clock::Real();
};

/// A database of serialized Datum records, opened for reading only: nothing in its folder is created, locked or
/// changed, so that several processes, and users who own nothing there, read the same one, also while another has it
/// open. What is read is the state at Open. Records are numbered from 0 in the order of their keys. Any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Opens the database at `source` (a folder; for LMDB also its data file) and finds the number and the keys of its
  /// records: from the cached index, or by a scan that logs its progress.
  /// @return kNotFound: no such path; kInvalidArgument: there is something else, or no record in it; kDataLoss: a file
  /// of it is truncated or corrupt (named).
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& source, DbBackend backend,
                                                 const DatasetOptions& options = {});

  virtual int64_t size() const = 0;
  /// The key of `record`, valid as long as the dataset. @param record in [0, size()).
  virtual std::string_view key(int64_t record) const = 0;
  /// The value of `record`, normally a serialized Datum. Reading a record after the one before it is cheapest.
  /// @return kFailedPrecondition: the database was replaced or truncated since Open; kDataLoss: a corrupt file (named).
  virtual Status Read(int64_t record, std::string* bytes) = 0;

  /// Whether the database is still the one that was opened; also checked on read errors and now and then by Read.
  virtual Status CheckUnchanged() = 0;

  const std::string& source() const { return source_; }
  /// A hash over the number of records and a sample of keys and values; the same for equal contents in LevelDB and
  /// LMDB, never 0. What nodes compare at the handshake.
  uint64_t Fingerprint() const { return fingerprint_; }
  /// "record 17 (key "00000017") of /data/train_lmdb", for messages.
  std::string Describe(int64_t record) const;

 protected:
  explicit Dataset(std::string source) : source_(std::move(source)) {}

 private:
  Status ComputeFingerprint();

  const std::string source_;
  uint64_t fingerprint_ = 0;
};

}  // namespace hp

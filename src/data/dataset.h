#pragma once

#include "base/clock.h"
#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace caffe {
class Datum;
}

namespace hp {

/// The format of a database; Caffe's DataParameter.DB.
enum class DbBackend { kLevelDb, kLmdb };

/// "leveldb" or "lmdb", in any case. @return kInvalidArgument for anything else.
StatusOr<DbBackend> ParseDbBackend(std::string_view name);
/// "leveldb" or "lmdb".
const char* DbBackendName(DbBackend backend);

struct DatasetOptions {
  /// The folder in which record indexes are kept between runs. Empty: $XDG_CACHE_HOME/hpnode, else ~/.cache/hpnode.
  /// "none": nowhere. A folder that cannot be written is no error, but each run scans the keys anew.
  std::string cache_dir;
  /// Put in front of the message of an error of Open, e.g. `train.prototxt layer "cifar" data_param.source`.
  std::string hint;
  /// How many records may be unreadable (BadRecords): those of the fingerprint that are do not keep it from opening.
  int64_t max_bad_records = 0;
  /// Times the log lines about the progress of a scan.
  const Clock* clock = Clock::Real();
};

/// Records that are Datum messages: those of a database, or of other files (DatumDataset). A record has several tops,
/// as the layer that reads them: the first is what its Datum holds, the others have numbers beside it. They are opened
/// for reading only: nothing is created, locked or changed, so several processes can read the same one without write
/// permission, also while another has it open. It shows the state at Open; a database that is replaced or truncated
/// (LMDB: or written to) later is an error of Read. Records are numbered from 0 in the order of their keys, as Caffe
/// reads them. Any thread may call anything, several at once.
///
/// To add a backend, derive from it: size, key, Read and CheckUnchanged with the contracts here, an Open that scans or
/// loads the keys, and a case in dataset.cc.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Opens the database at `source` (a folder; for LMDB also its data file) and loads the keys of its records: from the
  /// cached index if that fits, else by a scan of all keys, which logs its progress and may take minutes.
  /// @return kNotFound: no such path; kInvalidArgument: not a database of this backend, not readable, or without
  /// records; kDataLoss: a file of it is truncated or corrupt (named); kFailedPrecondition: it was changed meanwhile.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& source, DbBackend backend,
                                                 const DatasetOptions& options = {});

  virtual int64_t size() const = 0;  ///< records, > 0
  /// The key of `record`; the view is valid as long as the dataset. @param record in [0, size()).
  virtual std::string_view key(int64_t record) const = 0;
  /// Copies the value of `record`, normally a serialized Datum, to *bytes. Blocks for the disk. Reading records in
  /// ascending order is cheapest.
  /// @return kFailedPrecondition: the database was replaced or truncated since Open; kDataLoss: a corrupt file (named).
  virtual Status Read(int64_t record, std::string* bytes) = 0;
  /// The same as a message. @return also kDataLoss: the bytes are no Datum. The message names the record.
  virtual Status ReadDatum(int64_t record, caffe::Datum* datum);
  /// How many tops a record has; that of a database has two, its image and its label.
  virtual int tops() const { return 2; }
  /// Of a record's top `top` >= 1, such as labels [1, H, W]; of rank 0: it is one number, or there is none.
  virtual Shape top_shape(int /*top*/) const { return {}; }
  /// Of the first top. @param image [C, H, W] of its Datum, after its transformation.
  virtual Shape first_shape(const Shape& image) const { return image; }
  /// Reads such a top: top_shape(top).count() numbers, which need not be whole; 0 where there is none. Errors as
  /// ReadDatum's. @param datum of the record.
  virtual Status ReadTop(int64_t record, int top, const caffe::Datum& datum, float* values);

  /// Checks that the database is still the one that was opened, by inode, size and time of its files; Read does it now
  /// and then, and after errors. @return kFailedPrecondition: it is not.
  virtual Status CheckUnchanged() = 0;

  const std::string& source() const { return source_; }  ///< as given to Open
  /// A hash of the number of records and of keys and values of 32 of them, and of IndexHash; equal for equal contents
  /// in LevelDB and LMDB, never 0. Nodes compare it at the handshake.
  uint64_t Fingerprint() const { return fingerprint_; }
  /// For messages: "record 17 (key "00000017") of /data/train_lmdb"; unprintable bytes of the key are escaped.
  virtual std::string Describe(int64_t record) const;

 protected:
  explicit Dataset(std::string source) : source_(std::move(source)) {}

  /// What every Open ends with: refuses a dataset without records, and reads some records for the fingerprint. Puts the
  /// hint in front of any error.
  static StatusOr<std::unique_ptr<Dataset>> Opened(StatusOr<std::unique_ptr<Dataset>> opened,
                                                   const DatasetOptions& options);
  /// A hash of what is known of all records without reading them; 0: nothing is.
  virtual uint64_t IndexHash() const { return 0; }

 private:
  Status ComputeFingerprint(bool bad_records);

  const std::string source_;
  uint64_t fingerprint_ = 0;
};

/// The most floats of a record: a protobuf message has 2 GiB.
constexpr int64_t kMostDatumFloats = int64_t{1} << 28;

/// A Dataset whose records are not stored as Datum messages: derive from it where other files, or none, have them.
class DatumDataset : public Dataset {
 public:
  Status Read(int64_t record, std::string* bytes) final;
  Status ReadDatum(int64_t record, caffe::Datum* datum) override = 0;

 protected:
  using Dataset::Dataset;
};

}  // namespace hp

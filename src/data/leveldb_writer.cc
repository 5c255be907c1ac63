#include "data/db_writers.h"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <utility>

namespace hp {
namespace {

constexpr size_t kBatchBytes = 4 << 20;

class LevelDbWriter : public DbWriter {
 public:
  LevelDbWriter(const std::string& path, const std::string& partial) : DbWriter(path, partial) {}

  Status Open() {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 20;
    // Between fast scans (large blocks) and cheap reads of single records in shuffled order (small ones).
    options.block_size = 16 << 10;
    leveldb::DB* db = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, partial(), &db);
    db_.reset(db);
    return Check(status);
  }

 protected:
  Status DoPut(std::string_view key, std::string_view value) override {
    batch_.Put({key.data(), key.size()}, {value.data(), value.size()});
    return batch_.ApproximateSize() < kBatchBytes ? OkStatus() : Write(false);
  }
  Status DoFinish() override {
    HP_RETURN_IF_ERROR(Write(true));
    // The last records lie in the log only. Opening it once more makes a table of them, so that readers, who can't
    // write, need not do that each time.
    db_.reset();
    HP_RETURN_IF_ERROR(Open());
    db_.reset();
    return OkStatus();
  }

 private:
  Status Write(bool sync) {
    leveldb::WriteOptions options;
    options.sync = sync;
    const leveldb::Status status = db_->Write(options, &batch_);
    batch_.Clear();
    return Check(status);
  }
  Status Check(const leveldb::Status& status) const {
    return status.ok() ? OkStatus()
                       : ResourceExhausted("can't write %s: %s", path().c_str(), status.ToString().c_str());
  }

  std::unique_ptr<leveldb::DB> db_;
  leveldb::WriteBatch batch_;
};

}  // namespace

StatusOr<std::unique_ptr<DbWriter>> NewLevelDbWriter(const std::string& path, const std::string& partial) {
  auto writer = std::make_unique<LevelDbWriter>(path, partial);
  HP_RETURN_IF_ERROR(writer->Open());
  return std::unique_ptr<DbWriter>(std::move(writer));
}

}  // namespace hp

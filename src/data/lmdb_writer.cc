#include "data/db_writers.h"

#include <lmdb.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr size_t kTransactionBytes = 16 << 20;
constexpr size_t kFirstMapBytes = 64 << 20;

class LmdbWriter : public DbWriter {
 public:
  LmdbWriter(const std::string& path, const std::string& partial) : DbWriter(path, partial) {}

  Status Open() {
    MDB_env* env = nullptr;
    if (const int error = mdb_env_create(&env); error != 0) return Failed(error);
    env_.reset(env);
    if (const int error = mdb_env_set_mapsize(env, map_bytes_); error != 0) return Failed(error);
    // Nobody else knows the folder yet, so no lock; the data is synced once, at the end.
    const int error = mdb_env_open(env, partial().c_str(), MDB_NOLOCK | MDB_NOSYNC, 0644);
    return error == 0 ? OkStatus() : Failed(error);
  }

 protected:
  Status DoPut(std::string_view key, std::string_view value) override {
    batch_.emplace_back(key, value);
    batch_bytes_ += key.size() + value.size();
    return batch_bytes_ < kTransactionBytes ? OkStatus() : WriteBatch();
  }
  Status DoFinish() override {
    HP_RETURN_IF_ERROR(WriteBatch());
    if (const int error = mdb_env_sync(env_.get(), 1); error != 0) return Failed(error);
    env_.reset();
    return OkStatus();
  }

 private:
  struct EnvClose {
    void operator()(MDB_env* env) const { mdb_env_close(env); }
  };

  // The map grows as it fills: nobody has to know the size of the database beforehand.
  Status WriteBatch() {
    int error;
    while ((error = TryWriteBatch()) == MDB_MAP_FULL) {
      map_bytes_ *= 2;
      if (const int resized = mdb_env_set_mapsize(env_.get(), map_bytes_); resized != 0) return Failed(resized);
    }
    if (error == MDB_KEYEXIST) return InvalidArgument("can't write %s: duplicate key", path().c_str());
    batch_.clear();
    batch_bytes_ = 0;
    return error == 0 ? OkStatus() : Failed(error);
  }

  int TryWriteBatch() {
    MDB_txn* txn = nullptr;
    if (const int error = mdb_txn_begin(env_.get(), nullptr, 0, &txn); error != 0) return error;
    MDB_dbi dbi;
    int error = mdb_dbi_open(txn, nullptr, 0, &dbi);
    for (size_t i = 0; error == 0 && i < batch_.size(); ++i) {
      auto& [key, value] = batch_[i];
      MDB_val mdb_key{key.size(), key.data()}, mdb_value{value.size(), value.data()};
      error = mdb_put(txn, dbi, &mdb_key, &mdb_value, MDB_NOOVERWRITE);
    }
    if (error == 0) return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return error;
  }
  Status Failed(int error) const {
    // A write that a full disk cuts short is EIO to liblmdb.
    std::error_code failed;
    const auto space = std::filesystem::space(partial(), failed);
    const bool full = error == EIO && !failed && space.available < kTransactionBytes;
    return ResourceExhausted("can't write %s: %s", path().c_str(), mdb_strerror(full ? ENOSPC : error));
  }

  std::unique_ptr<MDB_env, EnvClose> env_;
  size_t map_bytes_ = kFirstMapBytes;
  std::vector<std::pair<std::string, std::string>> batch_;
  size_t batch_bytes_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<DbWriter>> NewLmdbWriter(const std::string& path, const std::string& partial) {
  auto writer = std::make_unique<LmdbWriter>(path, partial);
  HP_RETURN_IF_ERROR(writer->Open());
  return std::unique_ptr<DbWriter>(std::move(writer));
}

}  // namespace hp

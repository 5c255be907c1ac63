// Open: checks that the file has all pages that LMDB's header counts, since LMDB would touch missing ones through the
// memory map. The keys come from the cached index or from one scan. Read: looks a key up in a read transaction of the
// state at Open; transactions are kept for reuse, one for each thread that reads at the same time.
#include "data/lmdb_dataset.h"

#include "base/format.h"
#include "data/cache_dir.h"
#include "data/progress.h"

#include <glog/logging.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace hp {
namespace {

constexpr uint64_t kReadsPerPathCheck = 64;
constexpr size_t kMapGranularity = 1 << 20;

MDB_val ToVal(std::string_view view) { return {view.size(), const_cast<char*>(view.data())}; }
std::string_view View(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

StatusOr<std::unique_ptr<Dataset>> LmdbDataset::Open(const std::string& source, const std::string& path,
                                                     const DatasetOptions& options) {
  const bool is_file = !IsFolder(path);
  const std::string file = is_file ? path : path + "/data.mdb";
  const auto identity = IdentityOf(file);
  if (!identity) {
    if (errno != ENOENT) return InvalidArgument("database %s can't be read: %s", file.c_str(), std::strerror(errno));
    const bool leveldb = IdentityOf(path + "/CURRENT").has_value();
    return InvalidArgument("%s is not an LMDB database: it has no file data.mdb%s", path.c_str(),
                           leveldb ? ", but a LevelDB; set backend: LEVELDB" : "");
  }
  auto dataset = std::unique_ptr<LmdbDataset>(new LmdbDataset(source, file));
  dataset->identity_ = *identity;
  HP_RETURN_IF_ERROR(dataset->OpenEnv(is_file));
  HP_RETURN_IF_ERROR(dataset->CheckComplete());
  HP_RETURN_IF_ERROR(dataset->OpenDb());
  HP_RETURN_IF_ERROR(dataset->LoadIndex(options));
  return std::unique_ptr<Dataset>(std::move(dataset));
}

LmdbDataset::~LmdbDataset() {
  MutexLock lock(&mutex_);
  idle_.clear();
}

Status LmdbDataset::OpenEnv(bool is_file) {
  MDB_env* env = nullptr;
  if (const int error = mdb_env_create(&env); error != 0) return Failed("mdb_env_create", error);
  env_.reset(env);
  // The map need not be larger than the file (Caffe's writers say 1 TB, which a limited address space refuses).
  const size_t size = (static_cast<size_t>(identity_.size) / kMapGranularity + 1) * kMapGranularity;
  if (const int error = mdb_env_set_mapsize(env, size); error != 0) return Failed("mdb_env_set_mapsize", error);
  const std::string path = is_file ? file_ : file_.substr(0, file_.rfind('/'));
  const unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | (is_file ? MDB_NOSUBDIR : 0);
  if (const int error = mdb_env_open(env, path.c_str(), flags, 0); error != 0) {
    if (error == EACCES || error == EPERM) {
      return InvalidArgument("database %s can't be read: %s", file_.c_str(), mdb_strerror(error));
    }
    return DataLoss("database %s is truncated or not an LMDB database: %s", file_.c_str(), mdb_strerror(error));
  }
  return CheckUnchanged();
}

// LMDB would go through the missing pages of a truncated file by a memory map, which ends the process.
Status LmdbDataset::CheckComplete() {
  MDB_envinfo info;
  MDB_stat stat;
  if (const int error = mdb_env_info(env_.get(), &info); error != 0) return Failed("mdb_env_info", error);
  if (const int error = mdb_env_stat(env_.get(), &stat); error != 0) return Failed("mdb_env_stat", error);
  const int64_t needed = static_cast<int64_t>(info.me_last_pgno + 1) * stat.ms_psize;
  if (identity_.size >= needed) return OkStatus();
  return DataLoss("database %s is truncated: it has %lld bytes and needs %lld", file_.c_str(),
                  static_cast<long long>(identity_.size), static_cast<long long>(needed));
}

Status LmdbDataset::OpenDb() {
  MDB_txn* txn = nullptr;
  if (const int error = mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &txn); error != 0) {
    return Failed("mdb_txn_begin", error);
  }
  snapshot_ = mdb_txn_id(txn);
  if (const int error = mdb_dbi_open(txn, nullptr, 0, &dbi_); error != 0) {
    mdb_txn_abort(txn);
    return Failed("mdb_dbi_open", error);
  }
  // Committed, so that later transactions know the handle.
  const int error = mdb_txn_commit(txn);
  return error == 0 ? OkStatus() : Failed("mdb_txn_commit", error);
}

Status LmdbDataset::LoadIndex(const DatasetOptions& options) {
  const IndexCache cache(CacheDirectory(options.cache_dir), file_);
  const std::string identity = Format("%s\n%lld %lld\n", file_.c_str(), static_cast<long long>(identity_.size),
                                      static_cast<long long>(identity_.mtime_ns));
  if (cache.Load(identity, &index_)) return OkStatus();
  HP_RETURN_IF_ERROR(Scan(options.clock));
  HP_RETURN_IF_ERROR(CheckUnchanged());
  cache.Save(identity, index_);
  return OkStatus();
}

Status LmdbDataset::Scan(const Clock* clock) {
  HP_ASSIGN_OR_RETURN(const Txn txn, TakeTxn());
  MDB_stat stat;
  if (const int error = mdb_stat(txn.get(), dbi_, &stat); error != 0) return Failed("mdb_stat", error);
  MDB_cursor* cursor = nullptr;
  if (const int error = mdb_cursor_open(txn.get(), dbi_, &cursor); error != 0) return Failed("mdb_cursor_open", error);
  const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> closer(cursor, mdb_cursor_close);
  Progress progress("Indexing " + source(), static_cast<int64_t>(stat.ms_entries), clock);
  MDB_val key, value;
  int error;
  while ((error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
    index_.Append(View(key));
    progress.Count(value.mv_size);
  }
  if (error != MDB_NOTFOUND || index_.size() != static_cast<int64_t>(stat.ms_entries)) {
    return Failed(Format("after record %lld of %zu", static_cast<long long>(index_.size()), stat.ms_entries), error);
  }
  return OkStatus();
}

StatusOr<LmdbDataset::Txn> LmdbDataset::TakeTxn() {
  {
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      Txn txn = std::move(idle_.back());
      idle_.pop_back();
      return txn;
    }
  }
  MDB_txn* txn = nullptr;
  if (const int error = mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &txn); error != 0) {
    return Failed("mdb_txn_begin", error);
  }
  Txn owned(txn);
  if (mdb_txn_id(txn) != snapshot_) {
    return FailedPrecondition("database %s was changed while it was being read", file_.c_str());
  }
  return owned;
}

Status LmdbDataset::CheckUnchanged() {
  mdb_filehandle_t fd;
  if (const int error = mdb_env_get_fd(env_.get(), &fd); error != 0) {
    return InternalError("database %s: %s", file_.c_str(), mdb_strerror(error));
  }
  if (IdentityOf(fd) == identity_ && IdentityOf(file_) == identity_) return OkStatus();
  return FailedPrecondition("database %s was replaced, truncated or changed while it was being read", file_.c_str());
}

Status LmdbDataset::Read(int64_t record, std::string* bytes) {
  CHECK_GE(record, 0);
  CHECK_LT(record, size());
  mdb_filehandle_t fd;
  const bool look_at_path =
      reads_.fetch_add(1, std::memory_order_relaxed) % kReadsPerPathCheck == kReadsPerPathCheck - 1;
  if (look_at_path || mdb_env_get_fd(env_.get(), &fd) != 0 || IdentityOf(fd) != identity_) {
    HP_RETURN_IF_ERROR(CheckUnchanged());
  }
  HP_ASSIGN_OR_RETURN(Txn txn, TakeTxn());
  MDB_val key = ToVal(index_.key(record)), value;
  if (const int error = mdb_get(txn.get(), dbi_, &key, &value); error != 0) return Failed(Describe(record), error);
  bytes->assign(View(value));
  MutexLock lock(&mutex_);
  idle_.push_back(std::move(txn));
  return OkStatus();
}

Status LmdbDataset::Failed(const std::string& what, int error) {
  if (env_ != nullptr) HP_RETURN_IF_ERROR(CheckUnchanged());
  return DataLoss("database %s is corrupt: %s: %s", file_.c_str(), what.c_str(), mdb_strerror(error));
}

}  // namespace hp

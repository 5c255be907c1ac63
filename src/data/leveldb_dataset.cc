// Open: LevelDB recovers in memory (ReadOnlyEnv); if the folder's files changed meanwhile, it is opened again, up to 5
// times. The keys come from the cached index or from one scan. Read: a record that continues a recent one comes from an
// iterator kept at that place; any other is looked up by key, and if its successor is asked for next, an iterator is
// made for the range.
#include "data/leveldb_dataset.h"

#include "base/format.h"
#include "data/cache_dir.h"
#include "data/progress.h"

#include <glog/logging.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace hp {
namespace {

constexpr uint64_t kRecordsPerCheck = 64;
constexpr size_t kMaxCursors = 8;
constexpr int kOpenAttempts = 5;
// Two data layers and a node's sockets have to fit under the usual limit of 1024 open files.
constexpr int kMaxOpenTables = 200;
// Recovery keeps this much of an unfinished log in memory before it makes a table of it.
constexpr size_t kRecoveryBuffer = 64 << 20;

leveldb::ReadOptions ReadChecked(bool fill_cache) {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = fill_cache;
  return options;
}

std::string_view View(const leveldb::Slice& slice) { return {slice.data(), slice.size()}; }
leveldb::Slice ToSlice(std::string_view view) { return {view.data(), view.size()}; }

bool IsTable(const std::string& name) { return name.ends_with(".ldb") || name.ends_with(".sst"); }

// The files that make up the database, without LevelDB's text log and lock, which readers and writers touch at will.
bool IsContent(const std::string& name) {
  return IsTable(name) || name.ends_with(".log") || name == "CURRENT" || name.starts_with("MANIFEST-");
}

// Names, sizes and times of the database's files: what its index is tied to.
std::string DescribeFiles(const std::string& path) {
  std::vector<std::string> lines;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    const auto identity = IsContent(name) ? IdentityOf(entry.path()) : std::nullopt;
    if (!identity) continue;
    lines.push_back(Format("%s %lld %lld\n", name.c_str(), static_cast<long long>(identity->size),
                           static_cast<long long>(identity->mtime_ns)));
  }
  std::sort(lines.begin(), lines.end());
  std::string text = path + "\n";
  for (const std::string& line : lines) text += line;
  return text;
}

struct LiveTable {
  unsigned long long number = 0, size = 0;
};

// LevelDB tells its tables only as text: " 17:123['a' .. 'd']" is number 17 of 123 bytes.
std::vector<LiveTable> LiveTables(leveldb::DB* db) {
  std::vector<LiveTable> tables;
  std::string text;
  if (!db->GetProperty("leveldb.sstables", &text)) return tables;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    LiveTable table;
    if (std::sscanf(text.c_str() + begin, " %llu:%llu[", &table.number, &table.size) == 2) tables.push_back(table);
    begin = end + 1;
  }
  return tables;
}

}  // namespace

LevelDbDataset::LevelDbDataset(const std::string& source, const std::string& path) : Dataset(source), path_(path) {}

StatusOr<std::unique_ptr<Dataset>> LevelDbDataset::Open(const std::string& source, const std::string& path,
                                                        const DatasetOptions& options) {
  if (!IdentityOf(path + "/CURRENT")) {
    if (errno != ENOENT && errno != ENOTDIR) {
      return InvalidArgument("database %s can't be read: %s", path.c_str(), std::strerror(errno));
    }
    const bool lmdb = IdentityOf(path + "/data.mdb").has_value();
    if (lmdb) return InvalidArgument("%s is an LMDB, not a LevelDB database: its backend is LMDB", path.c_str());
    return InvalidArgument("%s is not a LevelDB database: it has no file CURRENT", path.c_str());
  }
  auto dataset = std::unique_ptr<LevelDbDataset>(new LevelDbDataset(source, path));
  std::string identity;
  HP_RETURN_IF_ERROR(dataset->OpenStable(&identity));
  HP_RETURN_IF_ERROR(dataset->LoadIndex(identity, options));
  return std::unique_ptr<Dataset>(std::move(dataset));
}

leveldb::Status LevelDbDataset::OpenDb() {
  // A fresh one for each attempt: nothing of a failed recovery may show through.
  db_.reset();
  env_ = std::make_unique<ReadOnlyEnv>();
  leveldb::Logger* logger = nullptr;
  env_->NewLogger("", &logger);
  logger_.reset(logger);
  leveldb::Options options;
  options.env = env_.get();
  options.info_log = logger_.get();
  options.paranoid_checks = true;  // a damaged log or index is an error, not a database with fewer records
  options.max_open_files = kMaxOpenTables;
  options.write_buffer_size = kRecoveryBuffer;
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, path_, &db);
  db_.reset(db);
  if (status.ok()) env_->Seal();
  return status;
}

// A process that has the database open may remove files between our look at CURRENT and at the tables: then there is a
// new state, which we have to read from the beginning.
Status LevelDbDataset::OpenStable(std::string* identity) {
  for (int attempt = 1;; ++attempt) {
    *identity = DescribeFiles(path_);
    const Status status = OpenOnce();
    if (status.ok() || attempt == kOpenAttempts || DescribeFiles(path_) == *identity) return status;
  }
}

Status LevelDbDataset::OpenOnce() {
  const auto folder = IdentityOf(path_), current = IdentityOf(path_ + "/CURRENT");
  if (!folder || !current) return FailedPrecondition("database %s was removed while it was opened", path_.c_str());
  {
    MutexLock lock(&mutex_);
    folder_ = *folder;
    current_ = *current;
  }
  const leveldb::Status status = OpenDb();
  if (status.ok()) return FindTables();
  if (status.IsIOError()) {
    return InvalidArgument("database %s can't be read: %s", path_.c_str(), status.ToString().c_str());
  }
  return DataLoss("database %s is truncated or corrupt: %s (last file read: %s)", path_.c_str(),
                  status.ToString().c_str(), ReadOnlyEnv::LastFileRead().c_str());
}

// Every table must have the size that the MANIFEST gives it: a truncated one is found here and not after some hours.
Status LevelDbDataset::FindTables() {
  tables_.clear();
  for (const LiveTable& table : LiveTables(db_.get())) {
    std::string file = Format("%s/%06llu.ldb", path_.c_str(), table.number);
    if (env_->InMemory(file)) continue;
    auto identity = IdentityOf(file);
    if (!identity) {
      const std::string old_name = Format("%s/%06llu.sst", path_.c_str(), table.number);
      if ((identity = IdentityOf(old_name))) file = old_name;
    }
    if (!identity) return DataLoss("database %s: table %s is missing", path_.c_str(), file.c_str());
    if (identity->size != static_cast<int64_t>(table.size)) {
      return DataLoss("database %s: %s has %lld bytes, its MANIFEST says %llu: %s", path_.c_str(), file.c_str(),
                      static_cast<long long>(identity->size), table.size,
                      identity->size < static_cast<int64_t>(table.size) ? "truncated" : "corrupt");
    }
    tables_[file] = *identity;
  }
  env_->Expect(tables_);
  return OkStatus();
}

Status LevelDbDataset::LoadIndex(const std::string& identity, const DatasetOptions& options) {
  const IndexCache cache(CacheDirectory(options.cache_dir), path_);
  if (cache.Load(identity, &index_)) return OkStatus();
  HP_RETURN_IF_ERROR(Scan(options.clock));
  // Somebody who writes meanwhile makes the identity that of another state than the one we have scanned.
  if (DescribeFiles(path_) == identity) cache.Save(identity, index_);
  return OkStatus();
}

Status LevelDbDataset::Scan(const Clock* clock) {
  Progress progress("Indexing " + source(), 0, clock);
  const std::unique_ptr<leveldb::Iterator> iterator(db_->NewIterator(ReadChecked(false)));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    index_.Append(View(iterator->key()));
    progress.Count(iterator->value().size());
  }
  if (!iterator->status().ok()) {
    return Failed(Format("after record %lld", static_cast<long long>(index_.size())), iterator->status());
  }
  return OkStatus();
}

Status LevelDbDataset::CheckUnchanged() {
  const auto current = IdentityOf(path_ + "/CURRENT"), folder = IdentityOf(path_);
  MutexLock lock(&mutex_);
  if (current == current_ && folder && folder->inode == folder_.inode) {
    // The usual case; tables are looked at when they are opened, and now and then while they are read.
  } else if (!current || !folder) {
    return FailedPrecondition("database %s was removed or replaced while it was being read", path_.c_str());
  } else if (folder->inode != folder_.inode || tables_.empty()) {
    return FailedPrecondition("database %s was replaced while it was being read", path_.c_str());
  }
  for (const auto& [file, identity] : tables_) {
    if (IdentityOf(file) == identity) continue;
    return FailedPrecondition("database %s was replaced or truncated while it was being read: %s has changed",
                              path_.c_str(), file.c_str());
  }
  // Somebody has opened it for writing: a new MANIFEST, but the tables that we read are untouched.
  current_ = *current;
  return OkStatus();
}

Status LevelDbDataset::CheckNowAndThen() {
  if (reads_.fetch_add(1, std::memory_order_relaxed) % kRecordsPerCheck != kRecordsPerCheck - 1) return OkStatus();
  const auto current = IdentityOf(path_ + "/CURRENT");
  {
    MutexLock lock(&mutex_);
    if (current == current_) return OkStatus();
  }
  return CheckUnchanged();
}

Status LevelDbDataset::Read(int64_t record, std::string* bytes) {
  CHECK_GE(record, 0);
  CHECK_LT(record, size());
  HP_RETURN_IF_ERROR(CheckNowAndThen());
  Cursor cursor;
  if (TakeCursor(record, &cursor)) return ReadByCursor(record, std::move(cursor), bytes);
  return ReadByKey(record, bytes);
}

// An iterator is worth its seek only when the record before was read, too.
bool LevelDbDataset::TakeCursor(int64_t record, Cursor* cursor) {
  MutexLock lock(&mutex_);
  const auto before = std::find_if(cursors_.begin(), cursors_.end(),
                                   [record](const Cursor& candidate) { return candidate.record == record - 1; });
  if (before != cursors_.end()) {
    *cursor = std::move(*before);
    cursors_.erase(before);
    return true;
  }
  const auto expected = std::find(expected_.begin(), expected_.end(), record);
  if (record == 0 || expected == expected_.end()) {
    expected_[next_expected_++ % expected_.size()] = record + 1;
    return false;
  }
  *expected = 0;
  if (cursors_.size() >= kMaxCursors) {  // the one that has waited longest
    *cursor = std::move(cursors_.front());
    cursors_.erase(cursors_.begin());
  }
  cursor->record = -1;
  return true;
}

Status LevelDbDataset::ReadByCursor(int64_t record, Cursor cursor, std::string* bytes) {
  if (cursor.iterator == nullptr) cursor.iterator.reset(db_->NewIterator(ReadChecked(true)));
  if (cursor.record >= 0) {
    cursor.iterator->Next();
  } else {
    cursor.iterator->Seek(ToSlice(key(record)));
  }
  if (!cursor.iterator->Valid() || View(cursor.iterator->key()) != key(record)) {
    return Failed(Describe(record), cursor.iterator->status());
  }
  bytes->assign(cursor.iterator->value().data(), cursor.iterator->value().size());
  cursor.record = record;
  MutexLock lock(&mutex_);
  cursors_.push_back(std::move(cursor));
  return OkStatus();
}

Status LevelDbDataset::ReadByKey(int64_t record, std::string* bytes) {
  const leveldb::Status status = db_->Get(ReadChecked(true), ToSlice(key(record)), bytes);
  return status.ok() ? OkStatus() : Failed(Describe(record), status);
}

Status LevelDbDataset::Failed(const std::string& what, const leveldb::Status& status) {
  const std::string file = ReadOnlyEnv::LastFileRead();
  HP_RETURN_IF_ERROR(CheckUnchanged());
  return DataLoss("database %s is truncated or corrupt: %s: %s (last file read: %s)", path_.c_str(), what.c_str(),
                  status.ok() ? "record not found" : status.ToString().c_str(), file.c_str());
}

}  // namespace hp

#pragma once

#include "data/lmdb_format.h"
#include "data/lmdb_pages.h"

#include "data_test_util.h"
#include <lmdb.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// Carries out `fill` in a transaction of the database at `folder`, which is made if need be.
inline void WithLmdb(const std::string& folder, unsigned env_flags, const std::function<void(MDB_txn*)>& fill) {
  std::filesystem::create_directories(folder);
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  const std::unique_ptr<MDB_env, void (*)(MDB_env*)> closer(env, mdb_env_close);
  ASSERT_EQ(mdb_env_set_mapsize(env, 8 << 20), 0);
  ASSERT_EQ(mdb_env_set_maxdbs(env, 4), 0);
  ASSERT_EQ(mdb_env_open(env, folder.c_str(), MDB_NOLOCK | MDB_NOSYNC | env_flags, 0644), 0);
  MDB_txn* txn = nullptr;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  fill(txn);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
}

inline MDB_dbi MainDb(MDB_txn* txn, unsigned flags = 0) {
  MDB_dbi dbi = 0;
  EXPECT_EQ(mdb_dbi_open(txn, nullptr, flags, &dbi), 0);
  return dbi;
}

inline MDB_val ToMdb(const std::string& bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }

inline void PutMdb(MDB_txn* txn, MDB_dbi dbi, const std::string& key, const std::string& value) {
  MDB_val mdb_key = ToMdb(key), mdb_value = ToMdb(value);
  ASSERT_EQ(mdb_put(txn, dbi, &mdb_key, &mdb_value, 0), 0);
}

/// The data file of a database with `records`, written by liblmdb in one transaction.
inline std::string LmdbBytes(const Records& records) {
  TempFolder folder;
  WithLmdb(folder.path(), 0, [&](MDB_txn* txn) {
    for (const auto& [key, value] : records) PutMdb(txn, MainDb(txn), key, value);
  });
  return ReadWholeFile(folder / "data.mdb");
}

/// `bytes` as a file, which must outlive it. Reading outside of it ends the test.
inline LmdbFile InMemory(const std::string& bytes) {
  return {"mem/data.mdb", bytes.size(), [&bytes](uint64_t offset, size_t count, char* to) {
            if (offset > bytes.size() || count > bytes.size() - offset) std::abort();
            std::memcpy(to, bytes.data() + offset, count);
            return OkStatus();
          }};
}

/// Everything in a database: its meta page, each place and each record, or the first error.
struct LmdbContents {
  Status status;
  LmdbMeta meta;
  std::vector<Extent> values;
  Records records;
};

inline LmdbContents ReadAll(const LmdbFile& file) {
  LmdbContents contents;
  const auto meta = ReadLmdbMeta(file);
  contents.status = meta.status();
  if (!meta.ok()) return contents;
  contents.meta = *meta;
  contents.status = WalkLmdb(file, *meta, [&](std::string_view key, Extent value) {
    contents.records.emplace_back(key, "");
    contents.values.push_back(value);
  });
  for (size_t i = 0; contents.status.ok() && i < contents.records.size(); ++i) {
    auto& [key, value] = contents.records[i];
    contents.status = ReadLmdbRecord(file, *meta, key, contents.values[i], &value);
  }
  return contents;
}

/// Writes `value` at `offset` of *bytes.
template <typename T>
void PutAt(std::string* bytes, size_t offset, T value) {
  std::memcpy(bytes->data() + offset, &value, sizeof(value));
}

/// Records with keys of `key_bytes` and values of about `value_bytes`.
inline Records LongKeyRecords(int count, int key_bytes, size_t value_bytes) {
  Records records = NoiseRecords(count, value_bytes);
  for (auto& [key, value] : records) key.insert(0, key_bytes - key.size(), 'k');
  return records;
}

}  // namespace hp

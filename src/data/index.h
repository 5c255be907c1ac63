#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// Bytes of a file.
struct Extent {
  uint64_t offset = 0, bytes = 0;

  bool operator==(const Extent&) const = default;
};

/// The keys of a database's records in ascending order, by which records are addressed by number: databases find
/// records by key only. For an LMDB also where their values lie. Takes the bytes of all keys and 8 more for each, 24
/// for an LMDB. Immutable once filled; then any thread.
class RecordIndex {
 public:
  /// Records.
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  /// @param record in [0, size()). The view is valid until the next Append.
  std::string_view key(int64_t record) const {
    const uint64_t begin = record == 0 ? 0 : ends_[record - 1];
    return std::string_view(keys_).substr(begin, ends_[record] - begin);
  }
  /// Adds the key of the next record; keys come in the database's order.
  void Append(std::string_view key) {
    keys_.append(key);
    ends_.push_back(keys_.size());
  }
  /// Likewise, with the place of the value. An index has places for all of its records or for none.
  void Append(std::string_view key, Extent value) {
    Append(key);
    values_.push_back(value);
  }
  /// Whether `value` may be called.
  bool has_values() const { return values_.size() == ends_.size(); }
  Extent value(int64_t record) const { return values_[record]; }  ///< its place in the file

 private:
  friend class IndexFile;
  std::string keys_;            // one after the other
  std::vector<uint64_t> ends_;  // of each in keys_
  std::vector<Extent> values_;  // empty: not known
};

/// The contents of an index file: `index` and the `identity` of its database, with a checksum.
std::string EncodeIndex(const std::string& identity, const RecordIndex& index);
/// Reads what EncodeIndex made; `bytes` may be anything. @return false: it is damaged or for another identity, and
/// *index as it was.
bool DecodeIndex(std::string_view bytes, const std::string& identity, RecordIndex* index);

/// The file that keeps the index of one database between runs: DIRECTORY/HASH.index, HASH being that of the database's
/// path. Several processes may load and save it at once. One thread at a time.
class IndexCache {
 public:
  /// @param directory from CacheDirectory; empty: Load finds nothing and Save does nothing.
  /// @param real_path of the database, without symbolic links.
  IndexCache(const std::string& directory, const std::string& real_path);

  /// Reads the index. @param identity describes the database's files, their sizes and times; it must be what Save was
  /// given. @return false: there is no file, it is for another identity, or its checksum is wrong; scan the keys then.
  bool Load(const std::string& identity, RecordIndex* index) const;
  /// Replaces the file in one step, and makes the directory if need be. A failure only costs the next run a scan, so it
  /// is logged (--v=1) and not reported.
  void Save(const std::string& identity, const RecordIndex& index) const;

  const std::string& path() const { return path_; }  ///< of the file; empty: none

 private:
  std::string directory_, path_;
};

}  // namespace hp

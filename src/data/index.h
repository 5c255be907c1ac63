#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// The keys of a database's records in ascending order, by which records are addressed by number: databases find
/// records by key only. Takes the bytes of all keys and 8 more for each. Immutable once filled; then any thread.
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

 private:
  friend class IndexFile;
  std::string keys_;            // one after the other
  std::vector<uint64_t> ends_;  // of each in keys_
};

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

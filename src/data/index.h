#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// The keys of a database's records, in order: what makes records addressable by number.
class RecordIndex {
 public:
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  std::string_view key(int64_t record) const {
    const uint64_t begin = record == 0 ? 0 : ends_[record - 1];
    return std::string_view(keys_).substr(begin, ends_[record] - begin);
  }
  void Append(std::string_view key) {
    keys_.append(key);
    ends_.push_back(keys_.size());
  }

 private:
  friend class IndexFile;
  std::string keys_;            // one after the other
  std::vector<uint64_t> ends_;  // of each in keys_
};

/// Where the index of one database is kept between runs.
class IndexCache {
 public:
  /// @param directory as CacheDirectory gives it; empty: nothing is kept.
  /// @param real_path of the database: names the file.
  IndexCache(const std::string& directory, const std::string& real_path);

  /// @param identity of the database (its files, their sizes and times); the file must have been saved for the same.
  /// @return false: there is none that fits, or it is damaged.
  bool Load(const std::string& identity, RecordIndex* index) const;
  /// Writes a file beside and renames it. What fails here costs the next run a scan, so nothing is reported but a line
  /// in the verbose log.
  void Save(const std::string& identity, const RecordIndex& index) const;

  const std::string& path() const { return path_; }

 private:
  std::string directory_, path_;
};

}  // namespace hp

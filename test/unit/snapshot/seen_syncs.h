#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace hp::test {

/// What this program has had the disk take (fsync) while it lives: this test program's fsync stands in front of the C
/// library's, and calls the system. One at a time. Any thread.
class SeenSyncs {
 public:
  SeenSyncs();
  ~SeenSyncs();
  SeenSyncs(const SeenSyncs&) = delete;

  /// From now on fsync of files of this name fails with EIO.
  void Fail(const std::string& name);
  /// Bytes that a file of this name had when it was synced last; -1: it was not.
  int64_t BytesOf(const std::string& name) const;
  /// For fsync. @return whether it fails.
  bool Note(const std::string& name, int64_t bytes);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> bytes_;
  std::set<std::string> failing_;
};

}  // namespace hp::test

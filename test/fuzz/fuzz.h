#pragma once

#include <fuzzer/FuzzedDataProvider.h>
#include <glog/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// What the fuzz targets share. Each target is one file with LLVMFuzzerTestOneInput; README.md says how they run.
namespace hp::fuzz {

/// Ends the process unless `sound`: a finding, as a crash is.
inline void Expect(bool sound) {
  if (!sound) std::abort();
}

/// Refusals are logged; here there are thousands a second.
inline const bool quiet = [] {
  FLAGS_minloglevel = google::GLOG_FATAL;
  return true;
}();

/// A file in memory for functions that take a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) { Expect(fd_ >= 0); }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void Write(std::string_view bytes) {
    Expect(ftruncate(fd_, 0) == 0);
    Expect(pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  const int fd_;
  const std::string path_;
};

}  // namespace hp::fuzz

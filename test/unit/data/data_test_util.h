#pragma once

#include "base/format.h"
#include "data/db_writer.h"
#include "proto/caffe.pb.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// A folder that is gone when the test is over.
class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "hp_data_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using Records = std::vector<std::pair<std::string, std::string>>;

/// Bytes that differ from record to record and do not compress away.
inline std::string NoiseBytes(uint64_t seed, size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (char& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

inline Records NoiseRecords(int count, size_t size, uint64_t seed = 0) {
  Records records;
  for (int i = 0; i < count; ++i) records.emplace_back(Format("%08d", i), NoiseBytes(seed + i, size + i % 7));
  return records;
}

inline void WriteRecords(const std::string& path, DbBackend backend, const Records& records) {
  auto writer = DbWriter::Create(path, backend);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [key, value] : records) {
    const Status put = (*writer)->Put(key, value);
    ASSERT_TRUE(put.ok()) << put;
  }
  const Status finished = (*writer)->Finish();
  ASSERT_TRUE(finished.ok()) << finished;
}

/// A raw Datum of noise.
inline caffe::Datum NoiseDatum(uint64_t seed, int channels, int height, int width, int label) {
  caffe::Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(label);
  datum.set_data(NoiseBytes(seed, static_cast<size_t>(channels) * height * width));
  return datum;
}

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

inline void WriteWholeFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Names, sizes, times and contents of all files of a folder, and the folder's own time.
inline std::map<std::string, std::string> Photograph(const std::string& folder) {
  std::map<std::string, std::string> picture;
  const auto describe = [](const std::string& path) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return std::string("missing");
    return Format("inode %llu, %lld bytes, mtime %lld.%09ld, ctime %lld.%09ld",
                  static_cast<unsigned long long>(info.st_ino), static_cast<long long>(info.st_size),
                  static_cast<long long>(info.st_mtim.tv_sec), info.st_mtim.tv_nsec,
                  static_cast<long long>(info.st_ctim.tv_sec), info.st_ctim.tv_nsec);
  };
  picture["."] = describe(folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    picture[name] = describe(entry.path()) + ReadWholeFile(entry.path());
  }
  return picture;
}

}  // namespace hp

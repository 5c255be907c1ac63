#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace hp::test {

/// A test with a folder of its own for files.
class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    char pattern[] = "/tmp/hp_proto_XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  /// Writes a file, and the folders above it. @param name within the folder. @return its path.
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

}  // namespace hp::test

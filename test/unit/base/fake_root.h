#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hp {

/// A folder that stands for "/", with the files of a kernel that a test writes. Removed on destruction.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = testing::TempDir() + "root-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  /// /proc/self/mountinfo with version 2 of control groups alone, at /sys/fs/cgroup.
  /// @param top the topmost group that is to be seen there.
  void MountVersion2(const std::string& top) const {
    Write("/proc/self/mountinfo", "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n25 24 0:22 " + top +
                                      " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

 private:
  std::string path_;
};

}  // namespace hp

#include "base/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hp {
namespace {

using ::testing::StartsWith;

class InputFileTest : public testing::Test {
 protected:
  InputFileTest() {
    char folder[] = "/tmp/input_file_XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~InputFileTest() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(InputFileTest, AllBytes) {
  EXPECT_EQ(ReadInputFile(Write("empty", "")).value(), "");
  const std::string large = std::string(200'000, 'x') + std::string("\0\n", 2);
  EXPECT_EQ(ReadInputFile(Write("large", large)).value(), large);
  std::filesystem::create_symlink(folder_ + "/large", folder_ + "/link");
  EXPECT_EQ(ReadInputFile(folder_ + "/link").value(), large);
  EXPECT_EQ(ReadInputFile("/proc/self/comm").value().empty(), false) << "of a size that nobody knows";
}

TEST_F(InputFileTest, NothingButFiles) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadInputFile(pipe).status().message(), pipe + ": is a pipe, expected a file") << "nobody writes to it";
  EXPECT_EQ(ReadInputFile("/dev/zero").status().message(), "/dev/zero: is a device, expected a file");
  EXPECT_EQ(ReadInputFile(folder_).status().message(), folder_ + ": is a folder, expected a file");
  for (const std::string& path : {pipe, std::string("/dev/zero"), folder_}) {
    EXPECT_EQ(OpenInputFile(path).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(InputFileTest, WhatCannotBeOpened) {
  const std::string absent = folder_ + "/absent", below = Write("file", "") + "/x";
  EXPECT_EQ(OpenInputFile(absent).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenInputFile(absent).status().message(), absent + ": no such file");
  EXPECT_EQ(OpenInputFile(below).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(OpenInputFile(below).status().message(), StartsWith(below + ": cannot be opened: "));
}

/// No record may be skipped for it.
TEST_F(InputFileTest, WhatTheFileIsNotToBlameFor) {
  const std::string path = Write("file", "");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = OpenInputFile(path).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace hp

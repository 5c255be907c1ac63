#include "report/progress_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace hp {
namespace {

class ProgressFileTest : public ::testing::Test {
 protected:
  ProgressFileTest() : path_("/tmp/progress_file_test." + std::to_string(getpid())) {}
  ~ProgressFileTest() override { std::remove(path_.c_str()); }
  std::string Text() {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Makes the file older than any clock could.
  void Age() { std::filesystem::last_write_time(path_, std::filesystem::file_time_type()); }
  bool IsFresh() { return std::filesystem::last_write_time(path_) != std::filesystem::file_time_type(); }

  const std::string path_;
};

TEST_F(ProgressFileTest, IsFreshOnlyWhereIterationsEnd) {
  auto file = ProgressFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->Look(0);
  EXPECT_EQ(Text(), "");
  (*file)->Look(9);
  EXPECT_EQ(Text(), "9 iterations\n");
  Age();
  (*file)->Look(9);
  EXPECT_FALSE(IsFresh());
  (*file)->Look(10);
  EXPECT_TRUE(IsFresh());
  EXPECT_EQ(Text(), "10 iterations\n");
}

TEST_F(ProgressFileTest, AnEarlierRunLeavesNothing) {
  std::ofstream(path_) << "812 iterations\n";
  ASSERT_TRUE(ProgressFile::Create(path_).ok());
  EXPECT_EQ(Text(), "");
}

TEST_F(ProgressFileTest, LooksOnceMoreAtTheEnd) {
  auto file = ProgressFile::Create(path_);
  ASSERT_TRUE(file.ok());
  (*file)->Follow([] { return 3; });
  file->reset();
  EXPECT_EQ(Text(), "3 iterations\n");
}

TEST_F(ProgressFileTest, NamesWhatCannotBeWritten) {
  const auto file = ProgressFile::Create("/nowhere/progress");
  EXPECT_EQ(file.status().message(), "--progress_file=/nowhere/progress: No such file or directory");
  EXPECT_EQ(ExitStatus(file.status()), 2);
}

}  // namespace
}  // namespace hp

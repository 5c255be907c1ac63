#include "base/pending_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PendingFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_pending_XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/file";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

  std::string folder_, path_;
};

TEST_F(PendingFileTest, StandsInItsPlaceFromCommitOn) {
  ASSERT_TRUE(WriteWholeFile(path_, "old").ok());
  const auto file = PendingFile::Create(path_);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Write("new").ok());
  ASSERT_TRUE((*file)->Write(" file").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(Read(), "old");
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Read(), "new file");
  EXPECT_THAT(Files(), ElementsAre("file"));
}

TEST_F(PendingFileTest, WhatIsNoFileIsWrittenToAsItIs) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int reader = open(path_.c_str(), O_RDWR);  // so that neither end waits for the other
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(WriteWholeFile(path_, "new").ok());
  char text[4] = "";
  EXPECT_EQ(read(reader, text, 3), 3);
  EXPECT_STREQ(text, "new");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_TRUE(WriteWholeFile("/dev/null", "new").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(WriteWholeFile("/dev/full", "new").code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(PendingFile::Create(folder_).status().message(), HasSubstr("Is a directory"));
  EXPECT_THAT(Files(), ElementsAre("file"));
}

/// Though it is below /dev.
TEST_F(PendingFileTest, SharedMemoryHasFilesLikeAnyOther) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "SKIPPED: no /dev/shm here";
  const std::string path = "/dev/shm/hp_pending_" + std::to_string(getpid());
  ASSERT_TRUE(WriteWholeFile(path, "a long text").ok());
  ASSERT_TRUE(WriteWholeFile(path, "short").ok());
  EXPECT_EQ(fs::file_size(path), 5u);
  fs::remove(path);
}

TEST_F(PendingFileTest, ALinkStaysOne) {
  std::ofstream(path_) << "old";
  const std::string link = folder_ + "/link";
  fs::create_symlink("file", link);
  ASSERT_TRUE(WriteWholeFile(link, "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(), "new");
  // Whoever knows whose file it is may want the name itself.
  {
    const auto file = PendingFile::Create(link);
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->Commit().ok());
  }
  EXPECT_TRUE(!fs::is_symlink(link) && fs::is_empty(link));
  EXPECT_EQ(Read(), "new");
}

TEST_F(PendingFileTest, LeavesNothingWithoutCommit) {
  ASSERT_TRUE((*PendingFile::Create(path_))->Write("x").ok());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(PendingFileTest, OverwritesWhatAKilledProcessLeft) {
  std::ofstream(path_ + ".tmp") << "much longer than what comes";
  ASSERT_TRUE(WriteWholeFile(path_, "short").ok());
  EXPECT_EQ(Read(), "short");
  EXPECT_THAT(Files(), ElementsAre("file"));
}

TEST_F(PendingFileTest, PrivateOnesDoNotMeet) {
  const auto first = PendingFile::CreatePrivate(path_), second = PendingFile::CreatePrivate(path_);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->Write("first").ok());
  ASSERT_TRUE((*second)->Write("second").ok());
  for (PendingFile* file : {first->get(), second->get()}) {
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Commit().ok());
  }
  EXPECT_EQ(Read(), "second");
  EXPECT_THAT(Files(), ElementsAre("file"));
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(PendingFileTest, AMissingFolderIsNamed) {
  for (const auto& file :
       {PendingFile::Create(folder_ + "/no/file"), PendingFile::CreatePrivate(folder_ + "/no/file")}) {
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(file.status().message(), HasSubstr("/no does not exist"));
  }
}

// The limit on file size stands in for the disk.
TEST_F(PendingFileTest, AFullDiskLeavesTheOldFile) {
  ASSERT_TRUE(WriteWholeFile(path_, "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = WriteWholeFile(path_, std::string(101, 'x'));
    _exit(status.code() == StatusCode::kResourceExhausted ? 0 : 1);
  }
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
  EXPECT_EQ(Read(), "old");
  EXPECT_THAT(Files(), ElementsAre("file"));
}

TEST_F(PendingFileTest, TheFirstErrorIsKept) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {100, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto file = PendingFile::Create(path_);
    const bool failed = !(*file)->Write(std::string(200, 'x')).ok();
    limit.rlim_cur = 1000;  // there is room again, but 100 bytes in the middle are lost
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(failed && !(*file)->Write("y").ok() && !(*file)->Sync().ok() ? 0 : 1);
  }
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

}  // namespace
}  // namespace hp

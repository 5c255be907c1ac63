#include "checkpoint/folder_nonce.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace hp {
namespace {

namespace fs = std::filesystem;

class FolderNonceTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hp_nonces_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Prefix() const { return folder_ + "/net"; }
  std::string PathOf(uint64_t number) const { return FolderNonce::PathOf(Prefix(), number); }
  void WriteNonce(uint64_t number, const std::string& text, std::chrono::hours age) {
    std::ofstream(PathOf(number)) << text;
    fs::last_write_time(PathOf(number), fs::file_time_type::clock::now() - age);
  }
  /// Whether the next one that is made leaves it.
  bool Stays(uint64_t number) {
    EXPECT_TRUE(fs::exists(PathOf(number)));
    EXPECT_TRUE(FolderNonce::Create(Prefix()).ok());
    return fs::exists(PathOf(number));
  }

  std::string folder_;
};

TEST_F(FolderNonceTest, ProvesThatAFolderIsShared) {
  const std::string other = folder_ + "/other";
  fs::create_directory(other);
  auto nonce = FolderNonce::Create(Prefix());
  ASSERT_TRUE(nonce.ok()) << nonce.status();
  const uint64_t number = (*nonce)->number();
  EXPECT_TRUE(FolderNonce::IsIn(folder_ + "/another_prefix", number));
  EXPECT_FALSE(FolderNonce::IsIn(other + "/net", number));
  EXPECT_FALSE(FolderNonce::IsIn(Prefix(), number + 1));
  nonce->reset();
  EXPECT_FALSE(FolderNonce::IsIn(Prefix(), number));
  EXPECT_FALSE(FolderNonce::Create(folder_ + "/missing/net").ok());
}

TEST_F(FolderNonceTest, OfAProcessThatLivesStaysAndOfADeadOneGoes) {
  int ready[2], go_on[2];
  ASSERT_TRUE(pipe(ready) == 0 && pipe(go_on) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto nonce = FolderNonce::Create(Prefix());
    const uint64_t number = nonce.ok() ? (*nonce)->number() : 0;
    char byte = 0;
    const bool told = write(ready[1], &number, sizeof(number)) == sizeof(number) && read(go_on[0], &byte, 1) == 1;
    _exit(told ? 0 : 1);  // as one that is killed: nothing is removed
  }
  uint64_t number = 0;
  ASSERT_EQ(read(ready[0], &number, sizeof(number)), static_cast<ssize_t>(sizeof(number)));
  ASSERT_NE(number, 0u);
  EXPECT_TRUE(Stays(number));
  fs::last_write_time(PathOf(number), fs::file_time_type::clock::now() - std::chrono::hours(1000));
  EXPECT_TRUE(Stays(number)) << "whatever its age";
  EXPECT_TRUE(FolderNonce::IsIn(Prefix(), number));
  ASSERT_EQ(write(go_on[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(Stays(number));
  for (const int fd : {ready[0], ready[1], go_on[0], go_on[1]}) close(fd);
}

TEST_F(FolderNonceTest, OneOfThisProcessStays) {
  const auto first = FolderNonce::Create(Prefix());
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(Stays((*first)->number()));
}

TEST_F(FolderNonceTest, OfAnotherHostOrWithoutOneGoesAfterADay) {
  using std::chrono::hours;
  const std::string other_host = "host 00000000000000ab\n";
  for (const std::string& text : {FolderNonce::TextOf(5) + other_host, FolderNonce::TextOf(5), std::string()}) {
    WriteNonce(5, text, hours(23));
    EXPECT_TRUE(Stays(5)) << text;
    WriteNonce(5, text, hours(25));
    EXPECT_FALSE(Stays(5)) << text;
  }
  WriteNonce(5, FolderNonce::TextOf(5) + other_host, hours(1000));
  const int fd = open(PathOf(5).c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);  // as its file system lets us know
  EXPECT_TRUE(Stays(5));
  close(fd);
  EXPECT_FALSE(Stays(5));
}

TEST_F(FolderNonceTest, NothingElseGoes) {
  for (const char* name : {"net_iter_5.hpnode", ".hpnode_nonc", "hpnode_nonce_1"}) {
    std::ofstream(folder_ + "/" + name) << FolderNonce::TextOf(1);
    fs::last_write_time(folder_ + "/" + name, fs::file_time_type::clock::now() - std::chrono::hours(1000));
  }
  fs::create_directory(folder_ + "/.hpnode_nonce_folder");
  EXPECT_TRUE(FolderNonce::Create(Prefix()).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 4);
}

}  // namespace
}  // namespace hp

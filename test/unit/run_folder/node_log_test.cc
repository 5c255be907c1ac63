// The log of a node in its run folder: early lines, rotation, a full disk.
#include "run_folder/node_log.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace hp {
namespace {

constexpr std::chrono::milliseconds kAmple{60000};

class NodeLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hp-log-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/conv0.1.log";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_, path_;
};

TEST_F(NodeLogTest, LinesFromBeforeTheFileWasKnown) {
  NodeLog log;
  log.writer()->Add({'I', 0, "early\n"});
  log.Open(path_);
  log.writer()->Add({'W', 0, "two\nlines\n"});
  bool behind = false;
  log.Then([&] { behind = Read(path_) == "early\ntwo\nlines\n"; });
  EXPECT_TRUE(log.writer()->Flush(kAmple));
  EXPECT_TRUE(behind);
}

TEST_F(NodeLogTest, Rotates) {
  NodeLog log(10);
  log.Open(path_);
  for (const char* line : {"1234\n", "5678\n", "abcd\n"}) log.writer()->Add({'I', 0, line});
  EXPECT_TRUE(log.writer()->Flush(kAmple));
  EXPECT_EQ(Read(path_), "abcd\n");
  EXPECT_EQ(Read(path_ + ".1"), "1234\n5678\n");
}

/// Keeps warnings.
class Warnings : public google::LogSink {
 public:
  Warnings() { google::AddLogSink(this); }
  ~Warnings() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity severity, const char*, const char*, int, const struct ::tm*, const char* text,
            size_t size) override {
    if (severity == google::GLOG_WARNING) lines.emplace_back(text, size);
  }
  std::vector<std::string> lines;
};

TEST_F(NodeLogTest, AFullDiskIsOneWarning) {
  Warnings warnings;
  NodeLog log;
  log.Open("/dev/full");
  for (int i = 0; i < 3; ++i) log.writer()->Add({'I', 0, "line\n"});
  EXPECT_TRUE(log.writer()->Flush(kAmple));
  ASSERT_EQ(warnings.lines.size(), 1u);
  EXPECT_THAT(warnings.lines[0],
              testing::HasSubstr("/dev/full: No space left on device; lines are missing there, and training goes on"));
}

}  // namespace
}  // namespace hp

#include "report/event_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() {
    char name[] = "/tmp/hp_events_XXXXXX";
    root_ = mkdtemp(name);
  }
  ~EventFileTest() override { fs::remove_all(root_); }

  /// The events of a file, whose checksums test/process/log_test.py looks at.
  static std::vector<TrainingEvent> EventsOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<TrainingEvent> events;
    for (size_t at = 0; at < bytes.size();) {
      uint64_t length = 0;
      EXPECT_LE(at + 12, bytes.size());
      std::memcpy(&length, bytes.data() + at, sizeof(length));
      EXPECT_TRUE(events.emplace_back().ParseFromString(bytes.substr(at + 12, length)));
      at += 16 + length;
    }
    return events;
  }

  std::string root_;
};

// RFC 3720, appendix B.4, and the check value of the checksum's catalogues.
TEST_F(EventFileTest, ChecksumsOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
}

// A reader takes what is behind half a record for a length.
TEST_F(EventFileTest, AFullDiskLeavesWholeRecords) {
  rlimit before = {}, small = {};
  getrlimit(RLIMIT_FSIZE, &before);
  small = {300, before.rlim_max};
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  std::string path;
  {
    const auto file = EventFile::Create(root_, 0);
    ASSERT_TRUE(file.ok()) << file.status();
    path = (*file)->path();
    setrlimit(RLIMIT_FSIZE, &small);
    for (int64_t i = 0; i < 20; ++i) (*file)->Add(i, {{"loss", 0.5}});
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  const size_t bytes = std::filesystem::file_size(path);
  EXPECT_GT(bytes, 200u);
  EXPECT_LT(bytes, 300u) << "the last record did not end there by chance";
  EXPECT_GT(EventsOf(path).size(), 2u);
}

TEST_F(EventFileTest, EachStartHasAFileThatSaysWhereItBegins) {
  std::vector<std::string> paths;
  for (const int64_t start : {0, 40}) {
    const auto file = EventFile::Create(root_ + "/a/b", start);
    ASSERT_TRUE(file.ok()) << file.status();
    paths.push_back((*file)->path());
    (*file)->Add(start + 2, {{"loss", 0.5}, {"test/accuracy", 1}});
    (*file)->Add(start + 3, {{"loss", 0.25}});
  }
  EXPECT_NE(paths[0], paths[1]);
  EXPECT_THAT(paths[0], testing::StartsWith(root_ + "/a/b/events.out.tfevents."));
  EXPECT_LT(paths[0], paths[1]) << "TensorBoard's order";
  const std::vector<TrainingEvent> events = EventsOf(paths[1]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), SessionLog::START);
  EXPECT_EQ(events[1].step(), 40);
  EXPECT_EQ(events[2].step(), 42);
  ASSERT_EQ(events[2].summary().value_size(), 2);
  EXPECT_EQ(events[2].summary().value(1).tag(), "test/accuracy");
  EXPECT_EQ(events[3].summary().value(0).simple_value(), 0.25f);
  EXPECT_GE(events[3].wall_time(), events[0].wall_time());
}

TEST_F(EventFileTest, FoldersThatCannotBe) {
  std::ofstream(root_ + "/file") << "x";
  for (const char* folder : {"/file", "/file/x"}) {
    const Status status = EventFile::Create(root_ + folder, 0).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << folder;
    EXPECT_THAT(status.message(), testing::StartsWith("--tensorboard=" + root_ + folder + ": "));
  }
}

}  // namespace
}  // namespace hp

#include "base/log_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <vector>

namespace hp {
namespace {

constexpr std::chrono::seconds kAmple{60};

/// A reader of the log that takes nothing until it is told to.
struct Reader {
  std::latch asked{1}, go_on{1};
  std::atomic<bool> first{true};
  std::vector<std::string> lines;  // the log's thread; ours when it was flushed

  void Take(const LogWriter::Line& line) {
    if (first.exchange(false)) {
      asked.count_down();
      go_on.wait();
    }
    lines.push_back(line.text);
  }
};

TEST(LogWriterTest, WritesAllLinesInTheirOrder) {
  std::vector<std::string> lines;
  LogWriter log(
      "log", LogWriter::kMaxWaiting, [&lines](const LogWriter::Line& line) { lines.push_back(line.text); }, nullptr);
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back(std::to_string(i));
    log.Add({i % 3 == 0 ? 'E' : 'I', 0, expected.back()});
  }
  EXPECT_TRUE(log.Flush(kAmple));
  EXPECT_EQ(lines, expected);
}

TEST(LogWriterTest, AReaderThatStopsHoldsUpNobodyAndLosesOnlyProgress) {
  Reader reader;
  int64_t dropped = 0;
  {
    LogWriter log(
        "log", LogWriter::kMaxWaiting, [&reader](const LogWriter::Line& line) { reader.Take(line); },
        [&dropped](int64_t lines) { dropped += lines; });
    log.Add({'I', 0, "first"});
    reader.asked.wait();
    for (size_t i = 0; i < LogWriter::kMaxWaiting + 7; ++i) log.Add({'I', 0, "progress"});
    log.Add({'W', 0, "warning"});
    log.Add({'E', 0, "error"});
    EXPECT_FALSE(log.Flush(std::chrono::milliseconds(1)));
    reader.go_on.count_down();
    EXPECT_TRUE(log.Flush(kAmple));
  }
  EXPECT_EQ(dropped, 7);
  ASSERT_EQ(reader.lines.size(), LogWriter::kMaxWaiting + 3);
  EXPECT_EQ(reader.lines[1], "progress");
  EXPECT_EQ(reader.lines[LogWriter::kMaxWaiting + 1], "warning");
  EXPECT_EQ(reader.lines.back(), "error");
}

TEST(RecentLinesTest, KeepsTheLatestWithoutTheirPrefixes) {
  RecentLines recent;
  EXPECT_EQ(recent.last_warning().number, 0);
  recent.Add('I', 7, "I0102 03:04:05.678901 234 file.cc:56] Iteration 3, loss = 1\n");
  ASSERT_EQ(recent.After(0).size(), 1);
  EXPECT_EQ(recent.After(0)[0].text, "Iteration 3, loss = 1");
  EXPECT_EQ(recent.After(0)[0].time, 7);
  EXPECT_TRUE(recent.After(1).empty());
  recent.Add('E', 8, "E0102 03:04:05.678901 234 file.cc:56] the disk is full\n");
  for (int i = 0; i < 100; ++i) recent.Add('I', 9, "progress");
  const std::vector<LoggedText> kept = recent.After(1);
  ASSERT_EQ(kept.size(), RecentLines::kMost);
  EXPECT_EQ(kept.front().text, "the disk is full") << "progress goes first";
  EXPECT_EQ(kept.back().number, 102);
  EXPECT_EQ(recent.last_warning().text, "the disk is full");
  for (size_t i = 0; i < RecentLines::kMost; ++i) recent.Add('W', 9, "w" + std::to_string(i));
  EXPECT_EQ(recent.After(0).front().text, "w0");
}

}  // namespace
}  // namespace hp

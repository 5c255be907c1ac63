#include "tools/cluster/frames.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hp {
namespace {

LaunchMessage Output(int id, const std::string& line) {
  LaunchMessage message;
  message.mutable_output()->set_id(id);
  message.mutable_output()->set_line(line);
  return message;
}

TEST(FramesTest, MessagesInAnyPieces) {
  const std::string bytes = EncodeFrame(Output(1, "one")) + EncodeFrame(LaunchMessage()) + EncodeFrame(Output(2, ""));
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameReader reader;
    std::vector<std::string> found;
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      const Status added = reader.Add(bytes.substr(begin, piece), [&found](const LaunchMessage& message) {
        found.push_back(message.SerializeAsString());
      });
      ASSERT_TRUE(added.ok()) << added;
    }
    EXPECT_EQ(found,
              (std::vector<std::string>{Output(1, "one").SerializeAsString(), "", Output(2, "").SerializeAsString()}));
  }
}

TEST(FramesTest, WhatAShellPrintsIsNoFrame) {
  FrameReader reader;
  const Status added = reader.Add("Welcome to host b!\n", [](const LaunchMessage&) { FAIL(); });
  EXPECT_EQ(added.code(), StatusCode::kDataLoss);
  EXPECT_NE(added.message().find("Welcome to host b!"), std::string::npos) << added;
}

TEST(FramesTest, AFrameThatIsNoMessage) {
  FrameReader reader;
  EXPECT_EQ(reader.Add(std::string("\0\0\0\2\xff\xff", 6), [](const LaunchMessage&) { FAIL(); }).code(),
            StatusCode::kDataLoss);
}

TEST(LineReaderTest, Lines) {
  LineReader reader;
  std::vector<std::string> lines;
  const auto add = [&lines](const std::string& line) { lines.push_back(line); };
  reader.Add("a\n\nb", add);
  EXPECT_EQ(lines, (std::vector<std::string>{"a", ""}));
  reader.Add("c\nrest", add);
  reader.Finish(add);
  reader.Finish(add);
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "", "bc", "rest"}));
  reader.Add(std::string(40000, 'x') + "\n", add);
  EXPECT_EQ(lines.size(), 7u) << "16 KiB each";
}

}  // namespace
}  // namespace hp

#include "base/format.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(PrintableTest, WhatATerminalShowsStays) {
  EXPECT_EQ(Printable(""), "");
  EXPECT_EQ(Printable("lost: \"a\" ~ 7 %s \\"), "lost: \"a\" ~ 7 %s \\");
  EXPECT_EQ(Printable("/daten/äö/模型/😀"), "/daten/äö/模型/😀");
}

TEST(PrintableTest, WhatMovesItsCursorDoesNot) {
  EXPECT_EQ(Printable("a\nI1122 all is well\x1b[2J\r\t\x7f"), "a\\x0aI1122 all is well\\x1b[2J\\x0d\\x09\\x7f");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xc2\x9b[2J"), "\\xc2\\x9b[2J") << "one character that stands for ESC [";
  EXPECT_EQ(Printable("\x9b[2J"), "\\x9b[2J") << "the same where a terminal takes bytes for characters";
}

TEST(PrintableTest, BytesThatAreNoUtf8) {
  EXPECT_EQ(Printable("\xff\xfe ok"), "\\xff\\xfe ok");
  EXPECT_EQ(Printable("\xe6\xa8"), "\\xe6\\xa8") << "cut off";
  EXPECT_EQ(Printable("\xc0\x8a\xe0\x80\x8a\xf0\x80\x80\x8a"), "\\xc0\\x8a\\xe0\\x80\\x8a\\xf0\\x80\\x80\\x8a")
      << "a newline in more bytes than it needs";
  EXPECT_EQ(Printable("\xed\xa0\x80\xf4\x90\x80\x80"), "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80") << "no characters";
}

TEST(PrintableTest, IsShort) {
  EXPECT_EQ(Printable("12345", 5), "12345");
  EXPECT_EQ(Printable("123456", 5), "12345...");
  EXPECT_EQ(Printable("1234ä", 5), "1234...") << "no half characters";
  EXPECT_EQ(Printable(std::string(64 << 10, '\n')).size(), 2048u * 4 + 3);
}

}  // namespace
}  // namespace hp

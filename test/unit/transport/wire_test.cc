#include "transport/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace hp {
namespace {

using testing::HasSubstr;

template <size_t N>
std::string Hex(const std::array<std::byte, N>& bytes) {
  std::string text;
  for (std::byte byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", std::to_integer<int>(byte));
    text += digits;
  }
  return text;
}

// The tables of transport/README.md, written out.
TEST(WireTest, BytesAreAsDocumented) {
  EXPECT_EQ(Hex(EncodePreamble({.version = 1, .kind = RecordKind::kRefusal, .length = 0x1234})),
            "48504e4f44450d0a"
            "0100"
            "0300"
            "34120000");
  FrameHeaderBytes bytes;
  EncodeFrameHeader({.type = FrameType::kData,
                     .length = 0x01020304,
                     .index = 0x11121314,
                     .generation = 0x21222324,
                     .msg_id = 0x3132333435363738,
                     .bytes = 0x4142434445464748,
                     .at = 0x5152535455565758,
                     .channel = 0x61626364},
                    bytes.data());
  EXPECT_EQ(Hex(bytes),
            "03000000"
            "04030201"
            "14131211"
            "24232221"
            "3837363534333231"
            "4847464544434241"
            "5857565554535251"
            "64636261"
            "00000000");
}

TEST(WireTest, HeadersSurviveTheWire) {
  FrameHeaderBytes bytes;
  EncodeFrameHeader({.type = FrameType::kMessage, .more = true, .length = 262144, .index = 7}, bytes.data());
  const StatusOr<FrameHeader> header = DecodeFrameHeader(bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->type, FrameType::kMessage);
  EXPECT_TRUE(header->more);
  EXPECT_EQ(header->length, 262144u);
  EXPECT_EQ(header->index, 7u);
}

TEST(WireTest, BadHeadersAreNamed) {
  const auto decode = [](size_t at, uint8_t value, const FrameHeader& header) {
    FrameHeaderBytes bytes;
    EncodeFrameHeader(header, bytes.data());
    bytes[at] = std::byte{value};
    return DecodeFrameHeader(bytes).status().message();
  };
  const FrameHeader grant{.type = FrameType::kGrant}, message{.type = FrameType::kMessage};
  EXPECT_EQ(decode(0, 2, grant), "");
  EXPECT_THAT(decode(0, 0, grant), HasSubstr("unknown type 0"));
  EXPECT_THAT(decode(0, 6, grant), HasSubstr("unknown type 6"));
  EXPECT_THAT(decode(1, 1, grant), HasSubstr("flags 0x1"));
  EXPECT_EQ(decode(1, 1, message), "");
  EXPECT_THAT(decode(1, 2, message), HasSubstr("flags 0x2"));
  EXPECT_THAT(decode(4, 1, grant), HasSubstr("a payload of 1 bytes"));
  EXPECT_THAT(decode(7, 0xFF, message), HasSubstr("at most 262144"));
}

TEST(WireTest, BadPreamblesAreNamed) {
  PreambleBytes bytes = EncodePreamble({.length = 65536});
  EXPECT_TRUE(DecodePreamble(bytes).ok());
  bytes[12] = std::byte{1};
  EXPECT_THAT(DecodePreamble(bytes).status().message(), HasSubstr("65537 bytes, at most 65536"));
  bytes[0] = std::byte{'G'};
  EXPECT_THAT(DecodePreamble(bytes).status().message(), HasSubstr("does not speak our protocol"));
}

}  // namespace
}  // namespace hp

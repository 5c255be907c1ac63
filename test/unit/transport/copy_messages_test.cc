// The bytes that CopyTransports say to each other: transport/README.md has them.
#include "transport/copy/messages.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

std::string Text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(CopyMessages, TheBytesAreThoseOfTheReadme) {
  using std::string_literals::operator""s;
  EXPECT_EQ(Text(Encode(CopyOffer{"gpu", "HANDLE", ""})), "\x03\0\0\0gpu\x01HANDLE"s);
  EXPECT_EQ(Text(Encode(CopyOffer{"gpu", "", "why"})), "\x03\0\0\0gpu\0why"s);
  EXPECT_EQ(Text(Encode(CopyRegion{0x0102, 0x03, "H"})), "\x02\x01\0\0\x03\0\0\0\0\0\0\0H"s);
  EXPECT_EQ(Text(Encode(RemoteGrant{7, 8})), "\x07\0\0\0\x08\0\0\0"s);
  EXPECT_EQ(Text(Encode(CopyGrant{{1, 2}, {.msg_id = 3, .channel = 4}, 5, 6, 7})),
            "\1\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\5\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"s);
}

TEST(CopyMessages, ComeBackAsTheyWent) {
  const auto offer = DecodeOffer(Encode(CopyOffer{"cuda:1", "abc", ""}));
  ASSERT_TRUE(offer.ok());
  EXPECT_EQ(offer->device, "cuda:1");
  EXPECT_EQ(offer->handle, "abc");
  EXPECT_EQ(DecodeOffer(Encode(CopyOffer{"cpu", "", "no GPU"}))->why_not, "no GPU");
  const auto region = DecodeRegion(Encode(CopyRegion{9, uint64_t{1} << 40, "xyz"}));
  EXPECT_EQ(region->region, 9u);
  EXPECT_EQ(region->bytes, uint64_t{1} << 40);
  EXPECT_EQ(region->handle, "xyz");
  const CopyGrant sent{{11, 12}, {.msg_id = 13, .channel = 14}, 15, 16, 17};
  const auto grant = DecodeGrant(Encode(sent));
  EXPECT_EQ(grant->grant.index, 11u);
  EXPECT_EQ(grant->grant.generation, 12u);
  EXPECT_EQ(grant->tag, sent.tag);
  EXPECT_EQ(grant->region, 15u);
  EXPECT_EQ(grant->offset, 16u);
  EXPECT_EQ(grant->bytes, 17u);
  EXPECT_EQ(DecodeSlot(Encode(RemoteGrant{1, 2}))->generation, 2u);
}

/// A peer's words stand in our log: no more than a few lines, and nothing that moves a terminal's cursor.
TEST(CopyMessages, TextsAreShortAndPrintable) {
  EXPECT_EQ(DecodeText(Encode(std::string("no\nGPU\x1b[2J"))), "no\\x0aGPU\\x1b[2J");
  EXPECT_EQ(DecodeText(Encode(std::string(5000, 'x'))), std::string(512, 'x') + "...");
  EXPECT_EQ(DecodeOffer(Encode(CopyOffer{std::string(5000, 'x'), "", "why"}))->device, std::string(512, 'x') + "...");
  EXPECT_EQ(DecodeRegion(Encode(CopyRegion{1, 2, std::string(4096, '\n')}))->handle, std::string(4096, '\n'));
  EXPECT_EQ(DecodeRegion(Encode(CopyRegion{1, 2, std::string(4097, 'h')})).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(CopyMessages, WhatIsCutOffOrTooLongIsRefused) {
  const auto check = [](std::vector<std::byte> whole, size_t least, auto decode) {
    for (size_t bytes = 0; bytes < least; ++bytes) {
      EXPECT_EQ(decode(std::span(whole).first(bytes)).status().code(), StatusCode::kInvalidArgument) << bytes;
    }
    EXPECT_TRUE(decode(std::span(whole).first(least)).ok());
  };
  check(Encode(CopyOffer{"cuda:0", "h", ""}), 11, DecodeOffer);
  check(Encode(CopyRegion{1, 2, "h"}), 12, DecodeRegion);
  check(Encode(CopyGrant{}), 40, DecodeGrant);
  check(Encode(RemoteGrant{}), 8, DecodeSlot);
  std::vector<std::byte> longer = Encode(CopyGrant{});
  longer.push_back(std::byte{0});
  EXPECT_EQ(DecodeGrant(longer).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DecodeSlot(longer).status().code(), StatusCode::kInvalidArgument);
  std::vector<std::byte> huge = Encode(CopyOffer{"cuda:0", "h", ""});
  huge[3] = std::byte{0xFF};  // a name of 4 GB
  EXPECT_EQ(DecodeOffer(huge).status().code(), StatusCode::kInvalidArgument);
  std::vector<std::byte> kind = Encode(CopyOffer{"", "h", ""});
  kind[4] = std::byte{2};
  EXPECT_EQ(DecodeOffer(kind).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hp

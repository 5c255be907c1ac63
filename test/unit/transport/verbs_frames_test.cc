// The bytes of the verbs transport, right and wrong.
#include "transport/verbs/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using testing::HasSubstr;

VerbsSetup ExampleSetup() {
  return {.epoch = 7,
          .control_bytes = 4096,
          .mtu = 3,
          .ethernet = true,
          .lid = 0x1234,
          .gid = {1, 2, 3},
          .by_cm = true,
          .cm_port = 0x5678,
          .cm_nonce = 0x1122334455667788,
          .qps = {{0x11, 0xABCDEF}, {0x12, 5}}};
}

TEST(Setup, ComesBack) {
  const StatusOr<VerbsSetup> setup = DecodeSetup(EncodeSetup(ExampleSetup()));
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->epoch, 7u);
  EXPECT_EQ(setup->control_bytes, 4096u);
  EXPECT_EQ(setup->lid, 0x1234);
  EXPECT_EQ(setup->mtu, 3);
  EXPECT_EQ(setup->gid[2], 3);
  EXPECT_TRUE(setup->by_cm);
  EXPECT_EQ(setup->cm_port, 0x5678);
  EXPECT_EQ(setup->cm_nonce, 0x1122334455667788u);
  ASSERT_EQ(setup->qps.size(), 2u);
  EXPECT_EQ(setup->qps[0].psn, 0xABCDEFu);
  EXPECT_EQ(setup->fault, "");
  EXPECT_EQ(DecodeSetup(EncodeSetup({.fault = "no device"}))->fault, "no device");
  EXPECT_EQ(DecodeSetup(EncodeSetup({.fault = "no\ndevice"}))->fault, "no\\x0adevice") << "it stands in our log";
}

TEST(Setup, BytesAreThoseOfTheReadme) {
  const std::string bytes = EncodeSetup(ExampleSetup());
  ASSERT_EQ(bytes.size(), 64u);
  EXPECT_EQ(bytes.substr(0, 16), std::string("\x07\0\0\0\0\x10\0\0\x34\x12\x03\x01\x02\0\0\0", 16));
  EXPECT_EQ(bytes.substr(32, 16), std::string("\x88\x77\x66\x55\x44\x33\x22\x11\x78\x56\1\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(48, 8), std::string("\x11\0\0\0\xEF\xCD\xAB\0", 8));
}

TEST(CmHello, BytesAreThoseOfTheReadme) {
  std::vector<std::byte> bytes(56);  // as librdmacm pads it
  EncodeCmHello({.index = 2, .epoch = 7, .nonce = 0x1122334455667788}, bytes.data());
  const std::string text(reinterpret_cast<const char*>(bytes.data()), kCmHelloBytes);
  EXPECT_EQ(text, std::string("HPNODE\r\n\2\0\2\0\7\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11", 24));
  const StatusOr<CmHello> hello = DecodeCmHello(bytes);
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->index, 2);
  EXPECT_EQ(hello->epoch, 7u);
  EXPECT_EQ(hello->nonce, 0x1122334455667788u);
  EXPECT_FALSE(DecodeCmHello(std::span(bytes).first(23)).ok());
  EXPECT_FALSE(DecodeCmHello({}).ok());
  bytes[8] = std::byte{9};
  EXPECT_THAT(DecodeCmHello(bytes).status().message(), HasSubstr("protocol version 9, 2 here"));
  bytes[0] = std::byte{'h'};
  EXPECT_THAT(DecodeCmHello(bytes).status().message(), HasSubstr("does not speak our protocol"));
}

TEST(Setup, WrongOnesAreRefused) {
  const std::string good = EncodeSetup(ExampleSetup());
  EXPECT_FALSE(DecodeSetup(good.substr(0, 47)).ok());
  EXPECT_FALSE(DecodeSetup(good.substr(0, 63)).ok());
  const auto with = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return DecodeSetup(bytes);
  };
  EXPECT_THAT(with(12, 18).status().message(), HasSubstr("18 queue pairs"));
  EXPECT_FALSE(with(13, 1).ok());
  EXPECT_THAT(with(10, 6).status().message(), HasSubstr("MTU 6"));
  EXPECT_FALSE(with(10, 0).ok());
  EXPECT_FALSE(with(5, 0).ok()) << "control messages of no bytes";
}

TEST(ControlFrame, FramesFollowEachOther) {
  std::vector<std::byte> bytes(2 * kFrameHeaderBytes + 3);
  EncodeFrameHeader({.type = FrameType::kMessage, .more = true, .length = 3, .index = 9}, bytes.data());
  bytes[kFrameHeaderBytes + 2] = std::byte{0x77};
  const FrameHeader grant{.type = FrameType::kGrant,
                          .parts = 4,
                          .index = 5,
                          .generation = 6,
                          .msg_id = 7,
                          .bytes = 8,
                          .at = 0x1122334455667788,
                          .channel = 9,
                          .rkey = 10};
  EncodeFrameHeader(grant, &bytes[kFrameHeaderBytes + 3]);
  std::span<const std::byte> rest = bytes, payload;
  const StatusOr<FrameHeader> first = TakeControlFrame(&rest, &payload);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->more);
  ASSERT_EQ(payload.size(), 3u);
  EXPECT_EQ(payload[2], std::byte{0x77});
  const StatusOr<FrameHeader> second = TakeControlFrame(&rest, &payload);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->parts, 4);
  EXPECT_EQ(second->at, 0x1122334455667788u);
  EXPECT_EQ(second->rkey, 10u);
  EXPECT_TRUE(rest.empty());
}

TEST(ControlFrame, WrongOnesAreRefused) {
  std::vector<std::byte> bytes(kFrameHeaderBytes);
  const auto take = [&](const FrameHeader& frame, size_t size) {
    EncodeFrameHeader(frame, bytes.data());
    std::span<const std::byte> rest = std::span(bytes).first(size), payload;
    return TakeControlFrame(&rest, &payload).status().message();
  };
  EXPECT_EQ(take({.type = FrameType::kEnd}, 48), "");
  EXPECT_THAT(take({.type = FrameType::kEnd}, 47), HasSubstr("a frame of 47 bytes"));
  EXPECT_THAT(take({.type = FrameType::kData}, 48), HasSubstr("unknown type 3"));
  EXPECT_THAT(take({.type = FrameType::kGrant, .more = true}, 48), HasSubstr("flags"));
  EXPECT_THAT(take({.type = FrameType::kMessage, .length = 1}, 48), HasSubstr("1 bytes in a message of 48"));
  EXPECT_THAT(take({.type = FrameType::kGrant, .length = 1}, 48), HasSubstr("1 bytes"));
}

TEST(Immediate, HoldsIndexAndGeneration) {
  const uint32_t immediate = EncodeImmediate(65535, 0x54321);
  EXPECT_EQ(ImmediateIndex(immediate), 65535u);
  EXPECT_TRUE(ImmediateFits(immediate, 0x54321));
  EXPECT_FALSE(ImmediateFits(immediate, 0x54322));
}

}  // namespace
}  // namespace hp

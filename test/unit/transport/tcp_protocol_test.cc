// A peer past the handshake that breaks a rule of transport/README.md loses its connection, and no byte goes astray.
#include "test/contract/fixtures.h"
#include "test/unit/transport/wire_peer.h"
#include "transport/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace hp {
namespace {

using testing::HasSubstr;

class ProtocolTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1000;
  static constexpr std::byte kUntouched{0x5A};

  void SetUp() override {
    auto listener = TcpListener::Bind("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    const int port = (*listener)->port();
    node_ = std::make_unique<TestNode>(
        MakeTcpTransport({.rank = 0, .peers = {{0, "node0", "127.0.0.1", port}, {1, "node1", "127.0.0.1", 7}}},
                         *std::move(listener)),
        "job", 0);
    node_->Start();
    peer_ = std::make_unique<WirePeer>(port);
    peer_->ShakeHands("job 1");
    node_->Await(Event::kConnected);
    ASSERT_TRUE((*node_)->Grant(1, {.msg_id = 1}, std::span(memory_).subspan(kBytes, kBytes)).ok());
    grant_ = peer_->ReceiveFrameHeader();
    ASSERT_EQ(grant_.type, FrameType::kGrant);
    ASSERT_EQ(grant_.bytes, kBytes);
  }
  FrameHeader Data(uint64_t offset) const {
    return {.type = FrameType::kData,
            .index = grant_.index,
            .generation = grant_.generation,
            .bytes = kBytes,
            .at = offset};
  }
  /// Adds a frame to what is sent at once.
  void Append(FrameHeader header, const std::string& payload) {
    header.length = static_cast<uint32_t>(payload.size());
    FrameHeaderBytes bytes;
    EncodeFrameHeader(header, bytes.data());
    frames_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    frames_ += payload;
  }
  /// The connection broke over `rule`, the grant ended with it, and nothing was written outside of the place.
  void ExpectBroken(const std::string& rule) {
    node_->Await(Event::kClosed);
    const Event closed = node_->events().back();
    EXPECT_EQ(closed.kind, Event::kClosed);
    EXPECT_EQ(closed.status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(closed.status.message(), HasSubstr("node1 (127.0.0.1:7) broke: protocol error: " + rule));
    EXPECT_TRUE(AllAre(std::span(memory_).first(kBytes), kUntouched));
    EXPECT_TRUE(AllAre(std::span(memory_).last(kBytes), kUntouched));
    EXPECT_TRUE(peer_->Closed());
  }
  void ExpectGrantFailed() {
    ASSERT_EQ(node_->events(Event::kGrantEnded).size(), 1u);
    EXPECT_EQ(node_->events(Event::kGrantEnded)[0].status.code(), StatusCode::kUnavailable);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(3 * kBytes, kUntouched);
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<WirePeer> peer_;
  FrameHeader grant_;
  std::string frames_;
};

TEST_F(ProtocolTest, AWriteByTheRulesArrives) {
  peer_->SendFrame(Data(0), std::string(400, 'a'));
  peer_->SendFrame({.type = FrameType::kMessage, .index = 3}, "hi");
  peer_->SendFrame(Data(400), std::string(600, 'a'));
  EXPECT_TRUE(node_->Get(Event::kGrantEnded, {.msg_id = 1}).status.ok());
  EXPECT_TRUE(AllAre(std::span(memory_).subspan(kBytes, kBytes), std::byte{'a'}));
  EXPECT_EQ(node_->events(Event::kMessage).size(), 1u);
  peer_->SendFrame(Data(0), "again");
  ExpectBroken("a write to grant 0.1, not open");
  EXPECT_EQ(node_->events(Event::kGrantEnded).size(), 1u);
}

// What follows a header is received where the next write probably goes. It has to be out of there before the handler
// hears that the place is free.
TEST_F(ProtocolTest, WhatLandedOnAGuessIsMovedBeforeThePlaceIsFree) {
  node_->ReactBy([&](const Event& event) {
    if (event.kind == Event::kGrantEnded) std::memset(&memory_[kBytes], 0x11, kBytes);
  });
  Append({.type = FrameType::kCancel, .index = grant_.index, .generation = grant_.generation}, "");
  Append({.type = FrameType::kMessage, .index = 5}, std::string(300, 'm'));
  Append({.type = FrameType::kMessage, .index = 6}, "last");
  peer_->Send(frames_);
  node_->Await(Event::kMessage, 2);
  EXPECT_EQ(node_->events(Event::kMessage)[0].body, std::string(300, 'm'));
  EXPECT_EQ(node_->events(Event::kMessage)[1].body, "last");
  EXPECT_EQ(node_->events(Event::kGrantEnded).size(), 1u);
  EXPECT_TRUE(AllAre(std::span(memory_).subspan(kBytes, kBytes), std::byte{0x11}));
}

// Two places, written in either order and in frames of any size, with messages in between, all in one segment.
TEST_F(ProtocolTest, GuessesChangeNothing) {
  std::vector<std::byte> second(kBytes);
  ASSERT_TRUE((*node_)->Grant(1, {.msg_id = 2}, second).ok());
  const FrameHeader other = peer_->ReceiveFrameHeader();
  FrameHeader to_second = Data(0);
  to_second.index = other.index;
  to_second.generation = other.generation;
  Append(to_second, std::string(10, 'b'));
  Append({.type = FrameType::kMessage, .index = 1}, std::string(100, 'm'));
  Append(Data(0), std::string(20, 'a'));
  to_second.at = 10;
  Append(to_second, std::string(kBytes - 10, 'b'));
  Append(Data(20), std::string(500, 'a'));
  Append({.type = FrameType::kMessage, .index = 2}, "");
  Append(Data(520), std::string(480, 'a'));
  Append({.type = FrameType::kMessage, .index = 3}, "end");
  peer_->Send(frames_);
  node_->Await(Event::kMessage, 3);
  EXPECT_EQ(node_->events(Event::kMessage)[0].body, std::string(100, 'm'));
  EXPECT_EQ(node_->events(Event::kMessage)[2].body, "end");
  for (uint64_t id : {1, 2}) EXPECT_TRUE(node_->Get(Event::kGrantEnded, {.msg_id = id}).status.ok());
  EXPECT_TRUE(AllAre(second, std::byte{'b'}));
  EXPECT_TRUE(AllAre(std::span(memory_).subspan(kBytes, kBytes), std::byte{'a'}));
  EXPECT_TRUE(AllAre(std::span(memory_).first(kBytes), kUntouched));
  EXPECT_TRUE(AllAre(std::span(memory_).last(kBytes), kUntouched));
}

TEST_F(ProtocolTest, UnknownGrant) {
  FrameHeader data = Data(0);
  data.index = 0xFFFFFFFF;
  peer_->SendFrame(data, "x");
  ExpectBroken("a write to grant 4294967295.1, not open");
  ExpectGrantFailed();
}

TEST_F(ProtocolTest, OldGeneration) {
  FrameHeader data = Data(0);
  --data.generation;
  peer_->SendFrame(data, "x");
  ExpectBroken("a write to grant 0.0, not open");
  ExpectGrantFailed();
}

TEST_F(ProtocolTest, TooLong) {
  peer_->SendFrame(Data(0), std::string(kBytes + 1, 'x'));
  ExpectBroken("a write of 1001 bytes at 0 of 1000 to a place with 0 of 1000 bytes");
  ExpectGrantFailed();
}

TEST_F(ProtocolTest, TooLongInTheSecondFrame) {
  peer_->SendFrame(Data(0), std::string(999, 'x'));
  peer_->SendFrame(Data(999), "xx");
  ExpectBroken("a write of 2 bytes at 999 of 1000 to a place with 999 of 1000 bytes");
  ExpectGrantFailed();
}

TEST_F(ProtocolTest, WrongTotal) {
  FrameHeader data = Data(0);
  data.bytes = 999;
  peer_->SendFrame(data, std::string(999, 'x'));
  ExpectBroken("a write of 999 bytes at 0 of 999");
}

TEST_F(ProtocolTest, WrongOffset) {
  peer_->SendFrame(Data(1), "x");
  ExpectBroken("a write of 1 bytes at 1 of 1000");
  ExpectGrantFailed();
}

TEST_F(ProtocolTest, OffsetThatWrapsAround) {
  peer_->SendFrame(Data(~uint64_t{0}), "x");
  ExpectBroken("a write of 1 bytes at 18446744073709551615");
}

TEST_F(ProtocolTest, EmptyWriteToAPlaceThatIsNot) {
  peer_->SendFrame(Data(0));
  ExpectBroken("a write of 0 bytes at 0 of 1000");
}

TEST_F(ProtocolTest, CancelAfterTheFirstBytes) {
  peer_->SendFrame(Data(0), "x");
  peer_->SendFrame({.type = FrameType::kCancel, .index = grant_.index, .generation = grant_.generation});
  ExpectBroken("a cancel of grant 0.1");
}

TEST_F(ProtocolTest, CancelOfNothing) {
  peer_->SendFrame({.type = FrameType::kCancel, .index = 9, .generation = 1});
  ExpectBroken("a cancel of grant 9.1");
}

TEST_F(ProtocolTest, UnknownFrame) {
  peer_->SendFrame({.type = static_cast<FrameType>(77)});
  ExpectBroken("frame of unknown type 77");
}

TEST_F(ProtocolTest, HugeFrame) {
  FrameHeaderBytes bytes;
  EncodeFrameHeader({.type = FrameType::kMessage, .length = 0xFFFFFFFF}, bytes.data());
  peer_->Send(bytes);
  ExpectBroken("frame of 4294967295 bytes");
}

TEST_F(ProtocolTest, EndlessMessage) {
  for (int i = 0; i < 5; ++i) {
    peer_->SendFrame({.type = FrameType::kMessage, .more = true}, std::string(kMaxFramePayload, 'x'));
  }
  ExpectBroken("a message of more than 1048576 bytes");
}

TEST_F(ProtocolTest, SomethingWithinAMessage) {
  peer_->SendFrame({.type = FrameType::kMessage, .more = true}, "x");
  peer_->SendFrame(Data(0), "x");
  ExpectBroken("a frame of type 3 within a message");
}

TEST_F(ProtocolTest, GrantOfAnOpenIndex) {
  peer_->SendFrame({.type = FrameType::kGrant, .index = 1, .generation = 1, .bytes = 5});
  peer_->SendFrame({.type = FrameType::kGrant, .index = 1, .generation = 2, .bytes = 5});
  ExpectBroken("grant 1 is open and was given again");
}

TEST_F(ProtocolTest, SomethingAfterTheEnd) {
  peer_->SendFrame({.type = FrameType::kEnd});
  peer_->SendFrame({.type = FrameType::kMessage}, "x");
  ExpectBroken("a frame after the end");
}

TEST_F(ProtocolTest, EndOfStreamWithinAFrame) {
  peer_->SendFrame(Data(0), "x");
  peer_ = nullptr;
  node_->Await(Event::kClosed);
  EXPECT_EQ(node_->events(Event::kClosed)[0].status.code(), StatusCode::kUnavailable);
  ExpectGrantFailed();
}

}  // namespace
}  // namespace hp

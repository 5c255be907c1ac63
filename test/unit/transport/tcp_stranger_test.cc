// What strangers send costs them their connection, and the job nothing.
#include "test/contract/fixtures.h"
#include "test/unit/transport/wire_peer.h"
#include "transport/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace hp {
namespace {

using testing::HasSubstr;

class StrangerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = TcpListener::Bind("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    port_ = (*listener)->port();
    ConnectOptions options{.rank = 0,
                           .peers = {{0, "node0", "127.0.0.1", port_}, {1, "node1", "127.0.0.1", 1}},
                           .max_handshakes = 8,
                           .clock = &clock_};
    zero_ = std::make_unique<TestNode>(MakeTcpTransport(options, *std::move(listener)), "job", 0);
    options.rank = 1;
    one_ = std::make_unique<TestNode>(MakeTcpTransport(options, nullptr), "job", 1);
    zero_->Start();
    one_->Start();
    zero_->Await(Event::kConnected);
    one_->Await(Event::kConnected);
  }
  /// The nodes still talk, and nobody else was let in.
  void TearDown() override {
    ASSERT_TRUE((*one_)->Send(0, 1, {}).ok());
    zero_->Await(Event::kMessage);
    EXPECT_EQ(zero_->events().size(), 2u);
  }

  FakeClock clock_;
  int port_ = 0;
  std::unique_ptr<TestNode> zero_, one_;
};

TEST_F(StrangerTest, RubbishIsDroppedAtOnce) {
  WirePeer web(port_);
  web.Send(std::string("GET / HTTP/1.1\r\nHost: example\r\n\r\n"));
  EXPECT_TRUE(web.Closed());
}

TEST_F(StrangerTest, AHugeLengthIsDroppedAtOnce) {
  WirePeer peer(port_);
  peer.Send(EncodePreamble({.length = 0xFFFFFFFF}));
  EXPECT_TRUE(peer.Closed());
  WirePeer just_too_long(port_);
  just_too_long.Send(EncodePreamble({.length = kMaxHelloBytes + 1}));
  EXPECT_TRUE(just_too_long.Closed());
}

TEST_F(StrangerTest, RecordsOutOfTurnAreDropped) {
  WirePeer ready(port_), refusal(port_), unknown(port_);
  ready.SendRecord({.kind = RecordKind::kReady}, "");
  EXPECT_TRUE(ready.Closed());
  refusal.SendRecord({.kind = RecordKind::kRefusal, .length = 2}, "no");
  EXPECT_TRUE(refusal.Closed());
  unknown.SendRecord({.kind = static_cast<RecordKind>(9)}, "");
  EXPECT_TRUE(unknown.Closed());
}

TEST_F(StrangerTest, SilenceIsDroppedAfterFiveSeconds) {
  WirePeer silent(port_), slow(port_);
  slow.Send(std::string("HPNODE\r\n"));
  // Each is accepted before a later one gets its answer.
  WirePeer spoken(port_);
  spoken.SendRecord({.length = 7}, "theirs ");
  RecordKind kind = RecordKind::kHello;
  spoken.ReceiveRecord(&kind);
  EXPECT_EQ(kind, RecordKind::kRefusal);
  clock_.Advance(6 * kNsPerSecond);
  EXPECT_TRUE(silent.Closed());
  EXPECT_TRUE(slow.Closed());
}

TEST_F(StrangerTest, ThereIsRoomForSoManyOnly) {
  std::vector<std::unique_ptr<WirePeer>> peers;
  for (int i = 0; i < 9; ++i) peers.push_back(std::make_unique<WirePeer>(port_));
  EXPECT_TRUE(peers[0]->Closed());
  // The ninth is still listened to.
  peers[8]->SendRecord({.length = 8}, "theirs 1");
  RecordKind kind = RecordKind::kHello;
  EXPECT_THAT(peers[8]->ReceiveRecord(&kind), HasSubstr("\"theirs\" there"));
  EXPECT_EQ(kind, RecordKind::kRefusal);
}

TEST_F(StrangerTest, AWellFormedStrangerIsToldWhy) {
  const auto refusal = [&](const Preamble& preamble, const std::string& hello) {
    WirePeer peer(port_);
    peer.SendRecord(preamble, hello);
    RecordKind kind = RecordKind::kHello;
    const std::string reason = peer.ReceiveRecord(&kind);
    EXPECT_EQ(kind, RecordKind::kRefusal);
    EXPECT_TRUE(peer.Closed());
    return reason;
  };
  EXPECT_THAT(refusal({.length = 8}, "theirs 1"), HasSubstr("job \"job\" here, \"theirs\" there"));
  EXPECT_THAT(refusal({.version = 3, .length = 5}, "job 1"),
              HasSubstr("version 2 of the connections' protocol here, 3 there; install the same hpnode everywhere"));
  EXPECT_THAT(refusal({.length = 5}, "job 1"), HasSubstr("node 1 is connected already"));
  EXPECT_THAT(refusal({.length = 5}, "job 7"), HasSubstr("node 7 is not expected to connect here"));
}

}  // namespace
}  // namespace hp

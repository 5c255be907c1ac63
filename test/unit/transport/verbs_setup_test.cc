// A peer that shakes hands and then sets RDMA up wrongly, or not at all.
#include "test/unit/transport/verbs_pair.h"
#include "test/unit/transport/wire_peer.h"
#include "transport/verbs/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using testing::HasSubstr;

class VerbsSetupTest : public testing::Test {
 protected:
  void Start(int handshake_deadline_ms = 20'000) {
    pair_.emplace(VerbsPair::Options{.handshake_deadline_ms = handshake_deadline_ms});
    ASSERT_TRUE(pair_->Make(0).ok());
    idle_ = pair_->host(0).live();
    pair_->node(0).Start();
    peer_.emplace(pair_->port(0));
    peer_->ShakeHands("job 1");
  }
  void SendSetup(const std::string& body) {
    peer_->SendRecord({.kind = RecordKind::kSetup, .length = static_cast<uint32_t>(body.size())}, body);
  }
  VerbsSetup ReceiveSetup() {
    RecordKind kind = RecordKind::kHello;
    const StatusOr<VerbsSetup> setup = DecodeSetup(peer_->ReceiveRecord(&kind));
    EXPECT_EQ(kind, RecordKind::kSetup);
    EXPECT_TRUE(setup.ok()) << setup.status();
    return setup.ok() ? *setup : VerbsSetup{};
  }
  /// The node gave the peer up, said why, and keeps nothing of it.
  void ExpectFailed(const std::string& why) {
    pair_->node(0).Await(Event::kConnectFailed);
    EXPECT_THAT(pair_->node(0).events()[0].status.message(), HasSubstr(why));
    EXPECT_EQ(pair_->host(0).live(), idle_);
    EXPECT_EQ(pair_->node(0)->Send(1, 1, {}).code(), StatusCode::kUnavailable);
  }
  static VerbsSetup Sound() {
    VerbsSetup setup{.epoch = 1, .control_bytes = 4096, .mtu = 3, .qps = {{0x91, 1}, {0x92, 2}}};
    const Gid gid = GidOfAddress("127.0.0.1");
    std::copy(gid.begin(), gid.end(), setup.gid);
    return setup;
  }

  std::optional<VerbsPair> pair_;
  std::optional<WirePeer> peer_;
  int idle_ = 0;
};

TEST_F(VerbsSetupTest, OneThatCloses) {
  Start();
  peer_.reset();
  ExpectFailed("before RDMA was set up");
}

TEST_F(VerbsSetupTest, OneThatSaysNothing) {
  Start(/*handshake_deadline_ms=*/200);
  ExpectFailed("it did not set RDMA up within 0.2 s");
}

TEST_F(VerbsSetupTest, OneThatSpeaksTcpFrames) {
  Start();
  peer_->SendFrame({.type = FrameType::kMessage});
  ExpectFailed("it does not speak our protocol");
}

TEST_F(VerbsSetupTest, OneThatIsReadyTwice) {
  Start();
  peer_->SendRecord({.kind = RecordKind::kReady}, "");
  ExpectFailed("an unexpected record of kind 2");
}

TEST_F(VerbsSetupTest, OneWithASetupThatMakesNoSense) {
  Start();
  SendSetup(EncodeSetup(Sound()).substr(0, 56));
  ExpectFailed("a set-up with 2 queue pairs in 56 bytes");
}

TEST_F(VerbsSetupTest, OneWithoutADevice) {
  Start();
  SendSetup(EncodeSetup({.fault = "no RDMA device here"}));
  ExpectFailed("on the other side: no RDMA device here");
}

TEST_F(VerbsSetupTest, OneThatCantConnectItsQueuePairs) {
  Start();
  const VerbsSetup theirs = ReceiveSetup();
  EXPECT_EQ(theirs.qps.size(), 2u);
  EXPECT_EQ(theirs.epoch, 1u);
  SendSetup(EncodeSetup(Sound()));
  RecordKind kind = RecordKind::kHello;
  EXPECT_EQ(peer_->ReceiveRecord(&kind), "") << "ours are up";
  EXPECT_EQ(kind, RecordKind::kUp);
  const std::string why = "a queue pair can't become RTR";
  peer_->SendRecord({.kind = RecordKind::kUp, .length = static_cast<uint32_t>(why.size())}, why);
  ExpectFailed("on the other side: a queue pair can't become RTR");
}

TEST_F(VerbsSetupTest, OneThatGoesAwayLater) {
  Start();
  ReceiveSetup();
  SendSetup(EncodeSetup(Sound()));
  RecordKind kind = RecordKind::kHello;
  peer_->ReceiveRecord(&kind);
  peer_->SendRecord({.kind = RecordKind::kUp}, "");
  pair_->node(0).Await(Event::kConnected);
  peer_.reset();
  pair_->node(0).Await(Event::kClosed);
  EXPECT_EQ(pair_->node(0).events(Event::kClosed)[0].status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(pair_->host(0).live(), idle_);
}

}  // namespace
}  // namespace hp

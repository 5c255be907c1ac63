// Failures over the RDMA devices of this host, which a test brings about by disturbing libibverbs' functions.
#include "test/contract/fixtures.h"
#include "test/contract/verbs_worlds.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/real_verbs.h"
#include "transport/verbs/verbs_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace hp {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// libibverbs, with somebody who turns knobs.
class Saboteur : public LibibVerbs {
 public:
  ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) override {
    ibv_qp* qp = LibibVerbs::CreateQp(pd, attributes);
    MutexLock lock(&mutex_);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }
  int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) override {
    for (ibv_send_wr* request = list; request != nullptr; request = request->next) {
      if (request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) request->wr.rdma.remote_addr += shift;
    }
    return LibibVerbs::PostSend(qp, list, bad);
  }
  /// Drives the n-th queue pair into the error state.
  void Break(size_t n) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    MutexLock lock(&mutex_);
    EXPECT_EQ(LibibVerbs::ModifyQp(qps_.at(n), &attributes, IBV_QP_STATE), 0);
  }
  std::atomic<uint64_t> shift = 0;  ///< writes land so many bytes late

 private:
  Mutex mutex_;
  std::vector<ibv_qp*> qps_ HP_GUARDED_BY(mutex_);
};

class RealVerbsTest : public testing::TestWithParam<QpSetup> {
 protected:
  void SetUp() override {
    const std::vector<std::string> addresses = RdmaAddresses();
    if (addresses.empty()) GTEST_SKIP() << "no active RDMA device with an IPv4 address (test/rdma-vm/run has two)";
    std::vector<std::unique_ptr<TcpListener>> listeners;
    std::vector<PeerAddress> peers;
    for (Rank rank = 0; rank < 3; ++rank) {
      const std::string& address = addresses[rank % addresses.size()];
      listeners.push_back(*TcpListener::Bind(address, 0));
      peers.push_back({rank, "node" + std::to_string(rank), address, listeners.back()->port()});
    }
    for (Rank rank = 0; rank < 3; ++rank) {
      VerbsOptions options;
      options.tcp_link = MakeTcpLink;
      options.connect.rank = rank;
      options.connect.peers = peers;
      options.connect.bind_host = peers[rank].host;
      options.settings.timeout = 16;
      options.settings.setup = GetParam();
      options.verbs = &verbs_[rank];
      auto transport = MakeVerbsTransport(options, std::move(listeners[rank]));
      ASSERT_TRUE(transport.ok()) << transport.status();
      nodes_.push_back(std::make_unique<TestNode>(*std::move(transport), "job", rank));
    }
    for (auto& node : nodes_) node->Start();
    for (auto& node : nodes_) node->Await(Event::kConnected, 2);
  }
  TestNode& node(Rank rank) { return *nodes_[rank]; }
  void Transfer(Rank from, Rank to, const PlaceTag& tag, std::span<const std::byte> source,
                std::span<std::byte> place) {
    ASSERT_TRUE(node(to)->Grant(from, tag, place).ok());
    ASSERT_TRUE(node(from)->Write(to, tag, node(from).Get(Event::kGranted, tag).grant, source).ok());
  }

  Saboteur verbs_[3];  // outlive the nodes
  std::vector<std::unique_ptr<TestNode>> nodes_;
};

TEST_P(RealVerbsTest, AQueuePairInErrorEndsThatConnectionOnly) {
  std::vector<std::byte> open(100), place(1 << 20);
  const std::vector<std::byte> source = Pattern(place.size(), 1);
  ASSERT_TRUE(node(1)->Grant(2, {.msg_id = 1}, open).ok());
  node(2).Get(Event::kGranted, {.msg_id = 1});
  verbs_[2].Break(1);  // a data queue pair
  Rank lost = -1;
  node(2).Await(Event::kClosed);
  lost = node(2).events(Event::kClosed)[0].peer;
  node(lost).AwaitFrom(Event::kClosed, 2);
  EXPECT_EQ(node(2).events(Event::kClosed)[0].status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(node(2).events(Event::kClosed)[0].status.message(), AnyOf(HasSubstr("queue pair"), HasSubstr("qp 0x")));
  const Rank other = 1 - lost;
  Transfer(other, 2, {.msg_id = 2}, source, place);
  EXPECT_TRUE(node(2).Get(Event::kGrantEnded, {.msg_id = 2}).status.ok());
  EXPECT_TRUE(Same(place, source));
  EXPECT_EQ(node(2).events(Event::kClosed).size(), 1u);
}

TEST_P(RealVerbsTest, AWriteBeyondItsPlaceIsRefusedByTheAdapter) {
  std::vector<std::byte> arena(1 << 20, std::byte{0x55});
  auto region = node(1)->Register(arena);
  ASSERT_TRUE(region.ok()) << region.status();
  const std::vector<std::byte> source = Pattern(64 << 10, 1);
  const PlaceTag tag{.msg_id = 812};
  verbs_[0].shift = 4096;
  Transfer(0, 1, tag, source, std::span(arena).first(source.size()));
  const Status ended = node(0).Get(Event::kWriteEnded, tag).status;
  EXPECT_EQ(ended.code(), StatusCode::kUnavailable);
  // Whichever comes first: our adapter's word, or the peer's of the event that its adapter raised.
  EXPECT_THAT(ended.message(), AnyOf(HasSubstr("msg 812 channel 0: remote access error"),
                                     HasSubstr("accessed memory without permission")));
  EXPECT_EQ(node(1).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kUnavailable);
  node(1).AwaitFrom(Event::kClosed, 0);
  EXPECT_TRUE(AllAre(std::span(arena).subspan(source.size()), std::byte{0x55})) << "beyond the place";
  // The third node goes on with both.
  verbs_[0].shift = 0;
  std::vector<std::byte> place(1000);
  for (Rank rank : {0, 1}) {
    const PlaceTag next{.msg_id = 900 + static_cast<uint64_t>(rank)};
    Transfer(rank, 2, next, std::span(source).first(1000), place);
    EXPECT_TRUE(node(2).Get(Event::kGrantEnded, next).status.ok());
  }
}

// Both peers of a node write to it at once, large and small.
TEST_P(RealVerbsTest, TwoPeersAtOnce) {
  constexpr uint64_t kWrites = 20;
  const std::vector<std::byte> source = Pattern(300'000, 1);
  std::vector<std::vector<std::byte>> places(2 * kWrites);
  for (uint64_t id = 0; id < places.size(); ++id) {
    places[id].resize(id % 3 == 0 ? 300'000 : 100 + id);
    ASSERT_TRUE(node(2)->Grant(id % 2, {.msg_id = id}, places[id]).ok());
  }
  for (Rank rank : {0, 1}) {
    node(rank).Await(Event::kGranted, kWrites);
    for (const Event& granted : node(rank).events(Event::kGranted)) {
      ASSERT_TRUE(node(rank)->Write(2, granted.tag, granted.grant, std::span(source).first(granted.bytes)).ok());
    }
  }
  node(2).Await(Event::kGrantEnded, places.size());
  for (const auto& place : places) EXPECT_TRUE(Same(place, std::span(source).first(place.size())));
}

INSTANTIATE_TEST_SUITE_P(Setups, RealVerbsTest, testing::Values(QpSetup::kTcp, QpSetup::kRdmaCm),
                         [](const auto& info) { return info.param == QpSetup::kTcp ? "tcp" : "rdmacm"; });

}  // namespace
}  // namespace hp

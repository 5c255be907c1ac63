// Whom a node lets speak in a node's name, by its host or by its token, and what it says while it waits.
#include "test/contract/fixtures.h"
#include "test/support/log_lines.h"
#include "transport/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace hp {
namespace {

using testing::HasSubstr;

class PeerConnectorTest : public testing::Test {
 protected:
  /// The first node, which listens. @param second_host where the second one is.
  std::unique_ptr<TestNode> MakeFirst(const std::string& second_host, const std::optional<JobKeys>& keys = {}) {
    auto listener = TcpListener::Bind("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    port_ = (*listener)->port();
    auto node =
        std::make_unique<TestNode>(MakeTcpTransport(Options(0, second_host, keys), *std::move(listener)), "job", 0);
    node->Start();
    return node;
  }
  std::unique_ptr<TestNode> MakeSecond(const std::optional<JobKeys>& keys = {}, Rank rank = 1) {
    auto node = std::make_unique<TestNode>(MakeTcpTransport(Options(rank, "127.0.0.1", keys), nullptr), "job", rank);
    node->Start();
    return node;
  }
  ConnectOptions Options(Rank rank, const std::string& second_host, const std::optional<JobKeys>& keys) const {
    return {.rank = rank,
            .peers = {{0, "first", "127.0.0.1", port_}, {1, "second", second_host, 1}},
            .keys = keys,
            .clock = &clock_};
  }
  static JobKeys Token(int byte) {
    JobKeys keys{.node = true};
    keys.nodes.fill(static_cast<std::byte>(byte));
    keys.readers.fill(static_cast<std::byte>(byte + 1));
    return keys;
  }

  FakeClock clock_;
  int port_ = 0;
};

TEST_F(PeerConnectorTest, ANodeMustSpeakFromItsHost) {
  test::LogLines log;
  const auto first = MakeFirst("192.0.2.7");
  const auto impostor = MakeSecond();
  EXPECT_THAT(log.Await("refused a connection"), HasSubstr("a hello in the name of second must come from its host"));
  EXPECT_TRUE(first->events().empty());
}

TEST_F(PeerConnectorTest, WithATokenItMaySpeakFromAnywhere) {
  const auto first = MakeFirst("192.0.2.7", Token(1));
  const auto second = MakeSecond(Token(1));
  first->AwaitFrom(Event::kConnected, 1);
  second->AwaitFrom(Event::kConnected, 0);
  ASSERT_TRUE((*second)->Send(0, 5, {}).ok());
  first->Await(Event::kMessage);
}

TEST_F(PeerConnectorTest, AnotherTokenOrNoneIsDropped) {
  test::LogLines log;
  const auto first = MakeFirst("127.0.0.1", Token(1));
  {
    const auto stranger = MakeSecond(Token(3));
    EXPECT_THAT(log.Await("it has another token"), HasSubstr("dropped a connection"));
  }
  {
    clock_.Advance(2 * kNsPerSecond);  // one line a second
    const auto stranger = MakeSecond();
    EXPECT_THAT(log.Await("it has no token"), HasSubstr("dropped a connection"));
  }
  const auto second = MakeSecond(Token(1));
  first->AwaitFrom(Event::kConnected, 1);
}

TEST_F(PeerConnectorTest, ATokenWhereNoneIsExpectedIsDropped) {
  test::LogLines log;
  const auto first = MakeFirst("127.0.0.1");
  const auto second = MakeSecond(Token(1));
  EXPECT_THAT(log.Await("was started without one"), HasSubstr("dropped a connection"));
  EXPECT_TRUE(first->events().empty());
}

TEST_F(PeerConnectorTest, ThePolicyLearnsFromWhereAClientCame) {
  const auto first = MakeFirst("127.0.0.1");
  ConnectOptions options = Options(0, "127.0.0.1", {});
  options.client = true;
  options.peers.resize(1);
  TestNode client(MakeTcpTransport(options, nullptr), "job", -1);
  client.Start();
  first->AwaitFrom(Event::kConnected, kFirstClientRank);
  const auto addresses = first->policy()->client_addresses();
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses.begin()->first, kFirstClientRank);
  EXPECT_THAT(addresses.begin()->second, testing::MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
}

TEST_F(PeerConnectorTest, WhomItWaitsForIsSaid) {
  test::LogLines log;
  const auto first = MakeFirst("127.0.0.1");
  clock_.Advance(16 * kNsPerSecond);
  EXPECT_EQ(log.Await("waiting for"), "waiting for second (127.0.0.1:1), which has not connected (284 s more)");
}

TEST_F(PeerConnectorTest, WhomItDialsInVainIsSaidWithTheCause) {
  test::LogLines log;
  port_ = (*TcpListener::Bind("127.0.0.1", 0))->port();  // closed again
  const auto second = MakeSecond();
  clock_.Advance(16 * kNsPerSecond);
  EXPECT_THAT(log.Await("waiting for"), HasSubstr("waiting for first (127.0.0.1:"));
}

}  // namespace
}  // namespace hp

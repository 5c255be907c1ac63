// What every transport promises about who gets connected.
#include "base/format.h"
#include "test/contract/fixtures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

class HandshakeTest : public TransportTest {};

TEST_P(HandshakeTest, NodesStartInAnyOrder) {
  for (const std::vector<Rank>& order : {std::vector<Rank>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}}) {
    MakeNodes({.size = 3});
    node(order[0]).Start();
    node(order[1]).Start();
    node(order[0]).AwaitFrom(Event::kConnected, order[1]);
    node(order[2]).Start();
    AwaitMesh();
    for (auto& each : nodes_) EXPECT_EQ(each->events(Event::kConnected).size(), 2u);
    nodes_.clear();
  }
}

TEST_P(HandshakeTest, APeerThatDoesNotAppearIsNamed) {
  MakeNodes({.size = 3, .connect_deadline_ms = ShortDeadlineMs()});
  node(0).Start();
  node(2).Start();
  for (Rank rank : {0, 2}) {
    node(rank).AwaitFrom(Event::kConnected, 2 - rank);
    node(rank).Await(Event::kConnectFailed);
    const std::vector<Event> failed = node(rank).events(Event::kConnectFailed);
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].peer, 1);
    EXPECT_EQ(failed[0].status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(failed[0].status.message(), HasSubstr(Format("did not appear within %g s", ShortDeadlineMs() / 1e3)));
  }
  ASSERT_TRUE(node(0)->Send(2, 1, {}).ok());
  node(2).Await(Event::kMessage);
}

TEST_P(HandshakeTest, AnotherJobIsToldWhyAndCostsNothing) {
  world_ = GetParam().make({.size = 3});
  for (Rank rank = 0; rank < 3; ++rank) {
    nodes_.push_back(std::make_unique<TestNode>(world_->Create(rank), rank == 2 ? "theirs" : "ours", rank));
    nodes_.back()->Start();
  }
  node(0).AwaitFrom(Event::kConnected, 1);
  node(1).AwaitFrom(Event::kConnected, 0);
  const auto refused = [&] { return node(2).policy()->refusals().size(); };
  while (refused() < 2) std::this_thread::yield();
  EXPECT_THAT(node(2).policy()->refusals(),
              ElementsAre(HasSubstr("job \"ours\" here, \"theirs\" there"), HasSubstr("job \"ours\" here")));
  for (Rank rank : {0, 1}) {
    while (node(rank).policy()->refused_hellos().empty()) std::this_thread::yield();
    EXPECT_THAT(node(rank).policy()->refused_hellos(), ElementsAre("theirs 2"));
  }
  ASSERT_TRUE(node(0)->Send(1, 1, {}).ok());
  node(1).Await(Event::kMessage);
  EXPECT_TRUE(node(2).events().empty());
  EXPECT_EQ(node(0)->Send(2, 1, {}).code(), StatusCode::kUnavailable);
}

TEST_P(HandshakeTest, ARankIsConnectedOnce) {
  StartNodes(2);
  // Somebody who may not be told from node 1 by its hello.
  TestNode impostor(world_->CreateClient(0), "job", 1);
  impostor.Start();
  while (impostor.policy()->refusals().empty()) std::this_thread::yield();
  // With a token it does not get that far: it has proven to be a client.
  EXPECT_THAT(impostor.policy()->refusals()[0],
              AnyOf(HasSubstr("node 1 is connected already"), HasSubstr("in another name than its proof")));
  ASSERT_TRUE(node(0)->Send(1, 1, {}).ok());
  node(1).Await(Event::kMessage);
  EXPECT_EQ(node(0).events(Event::kConnected).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Transports, HandshakeTest, testing::ValuesIn(AllTransports()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp

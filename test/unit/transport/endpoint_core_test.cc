#include "transport/endpoint_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace hp {
namespace {

using testing::ElementsAre;

constexpr PlaceTag kTag{.msg_id = 7, .channel = 2};

class EndpointCoreTest : public testing::Test {
 protected:
  EndpointCoreTest() { core_.mutex.Lock(); }
  ~EndpointCoreTest() override { core_.mutex.Unlock(); }

  EndpointCore core_{"node 1"};
  std::array<std::byte, 16> place_;
};

TEST_F(EndpointCoreTest, PostsAreAcceptedFromOpenToTheEnd) {
  EXPECT_EQ(core_.Grant(kTag, place_).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(core_.EndHere());
  ASSERT_TRUE(core_.Open());
  EXPECT_TRUE(core_.Grant(kTag, place_).ok());
  EXPECT_TRUE(core_.CheckMessage(kMaxMessageBytes).ok());
  EXPECT_EQ(core_.CheckMessage(kMaxMessageBytes + 1).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(core_.AddGrant(kTag, {.index = 3, .generation = 1}, 16).ok());
  EXPECT_TRUE(core_.EndHere());
  EXPECT_FALSE(core_.EndHere());
  EXPECT_EQ(core_.Grant(kTag, place_).status().message(), "node 1 is not connected");
  EXPECT_EQ(core_.UseGrant(kTag, {3, 1}, 16).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(core_.ReturnGrant({3, 1}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(core_.CheckMessage(1).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(core_.open()) << "what the peer sends is received still";
}

TEST_F(EndpointCoreTest, ItClosesOnce) {
  EXPECT_EQ(core_.Close(), EndpointCore::State::kConnecting);
  EXPECT_EQ(core_.Close(), EndpointCore::State::kClosed);
  EXPECT_FALSE(core_.Open()) << "a handshake that ends late";
  EXPECT_TRUE(core_.closed());
}

TEST_F(EndpointCoreTest, AGrantEndsOnce) {
  ASSERT_TRUE(core_.Open());
  const RemoteGrant arrived = *core_.Grant({.msg_id = 1}, place_), cancelled = *core_.Grant({.msg_id = 2}, place_);
  ASSERT_TRUE(core_.Grant({.msg_id = 3}, place_).ok());
  EXPECT_EQ(core_.GrantArrived(arrived)->msg_id, 1u);
  EXPECT_EQ(core_.GrantArrived(arrived).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(core_.GrantCancelled(cancelled)->msg_id, 2u);
  EXPECT_FALSE(core_.GrantCancelled(cancelled).ok());
  EXPECT_EQ(core_.Close(), EndpointCore::State::kOpen);
  EXPECT_THAT(core_.TakeGrants(), ElementsAre(PlaceTag{.msg_id = 3}));
  EXPECT_TRUE(core_.TakeGrants().empty());
}

TEST_F(EndpointCoreTest, AGrantThatWasWrittenToIsNotGivenBack) {
  ASSERT_TRUE(core_.Open());
  const RemoteGrant grant = *core_.Grant(kTag, place_);
  core_.grants().Find(grant)->received = 1;
  EXPECT_EQ(core_.GrantCancelled(grant).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(core_.GrantArrived(grant).ok());
}

TEST_F(EndpointCoreTest, AGrantOfThePeerIsUsedOnce) {
  ASSERT_TRUE(core_.Open());
  const RemoteGrant grant{.index = 3, .generation = 1};
  ASSERT_TRUE(core_.AddGrant(kTag, grant, 16, {.address = 4096, .key = 5, .parts = 2}).ok());
  EXPECT_EQ(core_.UseGrant({.msg_id = 8}, grant, 16).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(core_.UseGrant(kTag, grant, 15).status().code(), StatusCode::kInvalidArgument);
  const auto place = core_.UseGrant(kTag, grant, 16);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->address, 4096u);
  EXPECT_EQ(place->key, 5u);
  EXPECT_EQ(place->parts, 2);
  EXPECT_EQ(core_.UseGrant(kTag, grant, 16).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(core_.ReturnGrant(grant).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hp

#include "test/contract/fixtures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr PlaceTag kTag{.msg_id = 0x1234'5678'9ABC, .port = 3};

class ContractTest : public TransportTest {
 protected:
  /// `to` grants a place for `tag` to `from`, which writes `source` into it as soon as it may.
  void Transfer(Rank from, Rank to, const PlaceTag& tag, std::span<const std::byte> source,
                std::span<std::byte> place) {
    ASSERT_TRUE(node(to)->Grant(from, tag, place).ok());
    const Event granted = node(from).Get(Event::kGranted, tag);
    EXPECT_EQ(granted.bytes, place.size());
    EXPECT_EQ(granted.peer, to);
    ASSERT_TRUE(node(from)->Write(to, tag, granted.grant, source).ok());
  }
};

TEST_P(ContractTest, WritesArriveInTheirPlaces) {
  StartNodes(2);
  const size_t sizes[] = {1, 4, 1000, 4096, 262144 - 48, 262144, 262145, 524288, 3'000'001, 0};
  std::vector<std::vector<std::byte>> sources, places;
  for (size_t bytes : sizes) {
    sources.push_back(Pattern(bytes, bytes));
    places.emplace_back(bytes + 2, std::byte{0x55});
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    const PlaceTag tag{.msg_id = i, .port = 9};
    Transfer(0, 1, tag, sources[i], std::span(places[i]).subspan(1, sizes[i]));
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    SCOPED_TRACE(sizes[i]);
    const PlaceTag tag{.msg_id = i, .port = 9};
    EXPECT_TRUE(node(1).Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(node(0).Get(Event::kWriteEnded, tag).status.ok());
    EXPECT_TRUE(std::equal(sources[i].begin(), sources[i].end(), places[i].begin() + 1));
    EXPECT_EQ(places[i].front(), std::byte{0x55});
    EXPECT_EQ(places[i].back(), std::byte{0x55});
  }
  EXPECT_EQ(node(1).events(Event::kGrantEnded).size(), std::size(sizes));
  EXPECT_EQ(node(0).events(Event::kWriteEnded).size(), std::size(sizes));
}

TEST_P(ContractTest, MessagesArriveInOrder) {
  StartNodes(2);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(node(0)->Send(1, i, AsBytes("body " + std::to_string(i))).ok());
  node(1).Await(Event::kMessage, 200);
  const std::vector<Event> messages = node(1).events(Event::kMessage);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(messages[i].type, static_cast<uint32_t>(i));
    EXPECT_EQ(messages[i].body, "body " + std::to_string(i));
    EXPECT_EQ(messages[i].peer, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ContractTest, testing::ValuesIn(AllTransports()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hp

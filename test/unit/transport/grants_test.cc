#include "transport/grants.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(GrantTableTest, ASlotComesBackWithAnotherGeneration) {
  GrantTable table;
  std::vector<std::byte> place(4);
  const StatusOr<RemoteGrant> first = table.Open({.msg_id = 1}, place), second = table.Open({.msg_id = 2}, place);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->index, second->index);
  EXPECT_EQ(table.Find(*second)->tag.msg_id, 2u);
  EXPECT_EQ(table.Close(*first).tag.msg_id, 1u);
  EXPECT_EQ(table.Find(*first), nullptr);
  const StatusOr<RemoteGrant> third = table.Open({.msg_id = 3}, place);
  EXPECT_EQ(third->index, first->index);
  EXPECT_NE(third->generation, first->generation);
  EXPECT_EQ(table.Find(*first), nullptr);
  EXPECT_EQ(table.Find({99, 1}), nullptr);
  EXPECT_EQ(table.CloseAll().size(), 2u);
  EXPECT_TRUE(table.CloseAll().empty());
}

TEST(GrantTableTest, TheLikelyGrantFollowsTheLastOneWritten) {
  GrantTable table;
  EXPECT_FALSE(table.Likely());
  std::vector<RemoteGrant> grants;
  for (uint64_t id = 0; id < 4; ++id) grants.push_back(*table.Open({.msg_id = id}, {}));
  const auto likely = [&] { return table.Likely() ? static_cast<int>(table.Find(*table.Likely())->tag.msg_id) : -1; };
  EXPECT_EQ(likely(), 0);
  table.Close(grants[0]);
  EXPECT_EQ(likely(), 1);
  table.Close(grants[2]);  // out of order: 1 may never come
  EXPECT_EQ(likely(), 3);
  table.Expect(grants[1]);
  EXPECT_EQ(likely(), 1);
  table.Close(grants[1]);
  EXPECT_EQ(likely(), 3);
  table.Close(grants[3]);
  EXPECT_EQ(likely(), -1);
  ASSERT_TRUE(table.Open({.msg_id = 9}, {}).ok());
  EXPECT_EQ(likely(), 9);
}

TEST(GrantTableTest, OpenGrantsAreBounded) {
  GrantTable table;
  RemoteGrantTable remote;
  for (uint32_t i = 0; i < kMaxOpenGrants; ++i) {
    ASSERT_TRUE(table.Open({}, {}).ok());
    ASSERT_TRUE(remote.Add({}, {i, 1}, 0).ok());
  }
  EXPECT_EQ(table.Open({}, {}).status().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(remote.Add({}, {kMaxOpenGrants, 1}, 0).ok());
}

TEST(RemoteGrantTableTest, AnOpenIndexIsNotGrantedAgain) {
  RemoteGrantTable remote;
  ASSERT_TRUE(remote.Add({}, {5, 1}, 8).ok());
  EXPECT_FALSE(remote.Add({}, {5, 2}, 8).ok());
  EXPECT_TRUE(remote.Remove({5, 1}).ok());
  EXPECT_TRUE(remote.Add({}, {5, 2}, 8).ok());
}

}  // namespace
}  // namespace hp

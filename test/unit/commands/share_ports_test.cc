#include "commands/share_ports.h"

#include "base/thread.h"
#include "proto/text.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <list>
#include <optional>
#include <thread>
#include <vector>

namespace hp {
namespace {

constexpr int kNodes = 3;
constexpr int64_t kLongMs = 60'000;

class SharePortsTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/hpnode-ports-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
    folder_ = root_ + "/start/ports";
    RoutingTableConfig config;
    const std::string node = "stage: 0 host: \"h\" port: ";
    ASSERT_TRUE(ParseTextProto("solver: \"solver.prototxt\" stage { name: \"conv\" kind: CONV }"
                               "node { name: \"a\" index: 0 " +
                                   node + "1 } node { name: \"b\" index: 1 " + node +
                                   "2 } node { name: \"c\" index: 2 " + node + "3 }",
                               "table", &config)
                    .ok());
    StatusOr<RoutingTable> table = RoutingTable::Create(config, root_ + "/table.prototxt");
    ASSERT_TRUE(table.ok()) << table.status().message();
    table_ = *std::move(table);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  /// All nodes at once, node i with port 5000 + i.
  std::vector<StatusOr<RoutingTable>> All() {
    std::vector<std::optional<StatusOr<RoutingTable>>> found(kNodes);
    {
      std::list<Thread> threads;
      for (int i = 0; i < kNodes; ++i) {
        threads.emplace_back("node",
                             [this, i, &found] { found[i] = SharePorts(*table_, i, 5000 + i, folder_, kLongMs); });
      }
    }
    std::vector<StatusOr<RoutingTable>> all;
    for (auto& one : found) all.push_back(*std::move(one));
    return all;
  }

  std::string root_, folder_;
  std::optional<RoutingTable> table_;
};

TEST_F(SharePortsTest, AllNodesGetOneTableWithThePortsOfAll) {
  for (const StatusOr<RoutingTable>& shared : All()) {
    ASSERT_TRUE(shared.ok()) << shared.status().message();
    for (int i = 0; i < kNodes; ++i) EXPECT_EQ(shared->node(i).port, 5000 + i);
    EXPECT_EQ(shared->solver_path(), table_->solver_path());
  }
  const StatusOr<RoutingTable> written = RoutingTable::Load(folder_ + "/table.prototxt");
  ASSERT_TRUE(written.ok()) << written.status().message();
  for (int i = 0; i < kNodes; ++i) EXPECT_EQ(written->node(i).port, 5000 + i);
  EXPECT_EQ(written->solver_path(), table_->solver_path());
}

TEST_F(SharePortsTest, AFolderOfAnotherStartIsRefused) {
  for (const StatusOr<RoutingTable>& shared : All()) ASSERT_TRUE(shared.ok()) << shared.status().message();
  for (const StatusOr<RoutingTable>& shared : All()) {
    EXPECT_EQ(shared.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(shared.status().message().find("give each start of the job a folder of its own"), std::string::npos);
  }
}

TEST_F(SharePortsTest, SaysWhichNodeIsMissing) {
  const StatusOr<RoutingTable> shared = SharePorts(*table_, 0, 5000, folder_, 1);
  EXPECT_EQ(shared.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(shared.status().message().find("node b on h has not said its port within 0.001 s"), std::string::npos)
      << shared.status().message();
}

TEST_F(SharePortsTest, WhatIsNoPort) {
  for (const char* text : {"", "x", "0", "65536", "5001\n", "-1"}) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/node.00000000000000000000000000000001") << text;
    EXPECT_EQ(SharePorts(*table_, 0, 5000, folder_, kLongMs).status().code(), StatusCode::kDataLoss) << text;
    std::filesystem::remove_all(folder_);
  }
  std::ofstream(root_ + "/file");
  EXPECT_EQ(SharePorts(*table_, 0, 5000, root_ + "/file/x", kLongMs).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hp

#include "commands/plan_seats.h"

#include "scheduler/plan/routing_table.h"
#include "test/support/small_job.h"

#include "rendezvous/entry.h"
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace hp {
namespace {

/// Nodes that ask, on two hosts.
std::vector<NodeRecord> Askers(int count) {
  std::vector<NodeRecord> due;
  for (int i = 0; i < count; ++i) {
    NodeRecord& record = due.emplace_back();
    record.set_nonce(NewNonce());
    record.set_host_name(i % 2 == 0 ? "a" : "b");
    record.add_address(i % 2 == 0 ? "10.0.0.1" : "fd00::2");
    record.set_port(5000 + i);
    record.set_cores(8);
    record.set_memory_mb(8192);
  }
  return due;
}

class PlanSeatsTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/hpnode-seats-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    std::ofstream(folder_ + "/net.prototxt") << kJobNet;
    std::ofstream(folder_ + "/solver.prototxt")
        << "net: \"" << folder_ << "/net.prototxt\" base_lr: 0.1 lr_policy: \"fixed\" " << kJobSolver;
    flags_.solver = folder_ + "/solver.prototxt";
    flags_.sample = "1,8,8";
    flags_.cache_dir = "none";
    flags_.conv = 2;
    flags_.fc = 1;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  SeatPlanFlags flags_;
};

TEST_F(PlanSeatsTest, EachNodeHasTheAddressOfItsProcess) {
  std::vector<NodeRecord> due = Askers(3);
  due[2].set_device("cuda:1");
  const auto planned = MakeSeatPlanner(flags_)(due);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  ASSERT_EQ(planned->seat_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const NodeConfig& node = planned->config().node(i);
    EXPECT_EQ(node.host(), due[i].address(0));
    EXPECT_EQ(node.port(), due[i].port());
    EXPECT_EQ(node.device(), due[i].device());
    EXPECT_EQ(planned->seat(i).nonce(), due[i].nonce());
    EXPECT_EQ(planned->seat(i).node(), node.name());
  }
  EXPECT_EQ(RoutingTable::Create(planned->config(), "")->node(2).role, "fc");
}

TEST_F(PlanSeatsTest, WhatTheBestTableDoesNotNeedIsTold) {
  flags_.plan = "auto";
  const std::vector<NodeRecord> due = Askers(4);
  const auto planned = MakeSeatPlanner(flags_)(due);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_GT(planned->unneeded_size(), 0) << "so small a net is fastest on fewer nodes";
  std::set<std::string> all(planned->unneeded().begin(), planned->unneeded().end());
  for (const SeatRecord& seat : planned->seat()) all.insert(seat.nonce());
  EXPECT_EQ(all.size(), 4U) << "each process has a node or is not needed";
  EXPECT_LE(planned->config().node(0).threads(), 4) << "two processes share eight cores";
  EXPECT_GT(planned->config().node(0).threads(), 0);
}

TEST_F(PlanSeatsTest, FaultsAreFoundBeforeAnybodyAsks) {
  EXPECT_TRUE(CheckSeatPlan(flags_).ok());
  SeatPlanFlags wrong = flags_;
  wrong.solver = folder_ + "/missing";
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kNotFound);
  wrong = flags_;
  wrong.plan = "best";
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kInvalidArgument);
  wrong = flags_;
  wrong.fc = -1;
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kInvalidArgument);
  wrong = flags_;
  wrong.conv = 0;
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kInvalidArgument);
}

TEST_F(PlanSeatsTest, TwoPlansAreToldApart) {
  SeatPlanFlags other = flags_;
  EXPECT_EQ(other.request(), flags_.request());
  other.fc = 2;
  EXPECT_NE(other.request(), flags_.request());
  EXPECT_EQ(NodesWantedBy(flags_).total(), 3);
  other.plan = "auto";
  EXPECT_EQ(NodesWantedBy(other).any, 4);
}

}  // namespace
}  // namespace hp

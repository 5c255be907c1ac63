#include "commands/plan_seats.h"

#include "scheduler/plan/routing_table.h"
#include "test/support/small_job.h"

#include "rendezvous/entry.h"
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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
    record.add_address(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
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
  std::map<std::string, int> threads;  // of all nodes of a host
  for (const NodeConfig& node : planned->config().node()) threads[node.host()] += node.threads();
  for (const auto& [host, all] : threads) EXPECT_LE(all, 8) << host << ": its nodes share eight cores";
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

TEST_F(PlanSeatsTest, ProcessesOfOneHostShareItsCoresMemoryAndLink) {
  flags_.plan = "auto";
  std::vector<NodeRecord> apart = Askers(4), together = Askers(4);
  for (int i = 0; i < 4; ++i) {
    apart[i].set_host_id(i + 1);
    together[i].set_host_id(7);  // whatever their containers call it
    together[i].set_host_name("pod" + std::to_string(i));
    together[i].set_address(0, "10.0.0." + std::to_string(i + 1));
    apart[i].set_address(0, "10.0.0." + std::to_string(i + 1));
  }
  const auto cores = [&](const std::vector<NodeRecord>& due) {
    const auto planned = MakeSeatPlanner(flags_)(due);
    EXPECT_TRUE(planned.ok()) << planned.status().message();
    int64_t threads = 0, memory_mb = 0;
    for (const NodeConfig& node : planned->config().node()) {
      threads = std::max<int64_t>(
          threads, node.threads() * (due[0].host_id() == due[1].host_id() ? planned->config().node_size() : 1));
      memory_mb = std::max<int64_t>(memory_mb, node.memory_mb());
    }
    EXPECT_LE(memory_mb, 8192);
    EXPECT_EQ(planned->seat_size() + planned->unneeded_size(), 4);
    return threads;
  };
  EXPECT_EQ(cores(apart), 8) << "each has the cores of its own host";
  EXPECT_LE(cores(together), 8) << "all nodes together have those of one host";
}

TEST_F(PlanSeatsTest, NodesOfTheServersOwnHostAreDialledFromOthers) {
  std::vector<NodeRecord> due = Askers(3);
  for (int i = 0; i < 3; ++i) {
    due[i].set_host_id(i + 1);
    due[i].set_listen("0.0.0.0");
    due[i].set_address(0, "10.0.0." + std::to_string(i + 1));
  }
  due[0].set_address(0, "127.0.0.1");
  due[0].add_address("10.0.0.9");
  const auto planned = MakeSeatPlanner(flags_)(due);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_EQ(planned->config().node(0).host(), "10.0.0.9");
  EXPECT_EQ(planned->config().node(0).listen(), "0.0.0.0");
  EXPECT_EQ(planned->config().node(1).host(), "10.0.0.2");
  due[0].clear_listen();
  const auto refused = MakeSeatPlanner(flags_)(due);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("the node of a at 127.0.0.1:5000 can't be reached by all others"),
            std::string::npos)
      << refused.status().message();
  for (NodeRecord& record : due) {
    record.set_address(0, "127.0.0.1");
    record.set_host_id(4);
  }
  const auto local = MakeSeatPlanner(flags_)(due);
  ASSERT_TRUE(local.ok()) << local.status().message();
  EXPECT_EQ(local->config().node(0).host(), "127.0.0.1") << "all are on one host";
}

TEST_F(PlanSeatsTest, FlagsOfTheTableAreHeeded) {
  flags_.table.tls = true;
  flags_.table.micro_batches = 2;
  flags_.table.split = {"ip1:INPUTS"};
  flags_.table.job = "mine";
  flags_.fc = 2;
  ASSERT_TRUE(CheckSeatPlan(flags_).ok()) << CheckSeatPlan(flags_).message();
  std::vector<NodeRecord> due = Askers(4);
  for (NodeRecord& record : due) record.set_address(0, "10.0.0.1");
  const auto planned = MakeSeatPlanner(flags_)(due);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_TRUE(planned->config().transport().tls());
  EXPECT_EQ(planned->config().micro_batches(), 2);
  EXPECT_EQ(planned->config().job(), "mine");
  EXPECT_NE(planned->config().DebugString().find("INPUTS"), std::string::npos);
  flags_.table.beside = true;
  EXPECT_EQ(NodesWantedBy(flags_).total(), 2) << "both shards lie on conv nodes";
  EXPECT_TRUE(CheckSeatPlan(flags_).ok()) << CheckSeatPlan(flags_).message();
  flags_.table.split = {"nowhere:INPUTS"};
  EXPECT_FALSE(CheckSeatPlan(flags_).ok()) << "before anybody waits";
  flags_.plan = "auto";
  EXPECT_NE(CheckSeatPlan(flags_).message().find("does not go with --plan=auto"), std::string::npos);
}

}  // namespace
}  // namespace hp

#include "commands/plan_seats.h"

#include "commands/plan_table.h"
#include "commands/seat_hosts.h"
#include "proto/planning.pb.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/planner/layer_time.h"
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
    flags_.inputs.cache_dir = "none";
    flags_.table.conv = "2";
    flags_.table.fc = "1";
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
  flags_.table.plan = "auto";
  flags_.table.sample = "1,8,8";
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
  wrong.table.plan = "best";
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kInvalidArgument);
  wrong = flags_;
  wrong.table.fc = "-1";
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kInvalidArgument);
  wrong = flags_;
  wrong.table.conv = "0";
  EXPECT_EQ(CheckSeatPlan(wrong).code(), StatusCode::kInvalidArgument);
}

TEST_F(PlanSeatsTest, TwoPlansAreToldApart) {
  SeatPlanFlags other = flags_;
  EXPECT_EQ(other.request(), flags_.request());
  other.table.fc = "2";
  EXPECT_NE(other.request(), flags_.request());
  other = flags_;
  other.table.shares = "a:2";
  EXPECT_NE(other.request(), flags_.request());
  other = flags_;
  other.table.fc = "2";
  EXPECT_EQ(NodesWantedBy(flags_).total(), 3);
  other.table.plan = "auto";
  EXPECT_EQ(NodesWantedBy(other).any, 4);
}

TEST_F(PlanSeatsTest, ProcessesOfOneHostShareItsCoresMemoryAndLink) {
  flags_.table.plan = "auto";
  flags_.table.sample = "1,8,8";
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
  flags_.table.split = "ip1:INPUTS";
  flags_.table.job = "mine";
  flags_.table.fc = "2";
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
  flags_.table.split = "nowhere:INPUTS";
  EXPECT_FALSE(CheckSeatPlan(flags_).ok()) << "before anybody waits";
  flags_.table.plan = "auto";
  EXPECT_NE(CheckSeatPlan(flags_).message().find("does not go with --plan=auto"), std::string::npos);
}

/// What the node of each host is, by its name in the table.
std::map<std::string, const NodeConfig*> NodesByHost(const TableRecord& table, const std::vector<NodeRecord>& due) {
  std::map<std::string, const NodeConfig*> nodes;
  for (const NodeRecord& record : due) {
    for (int i = 0; i < table.seat_size(); ++i) {
      if (table.seat(i).nonce() == record.nonce()) nodes[record.host_name()] = &table.config().node(i);
    }
  }
  return nodes;
}

/// Conv nodes of hosts c, a, b and so on, in the order in which they ask.
std::vector<NodeRecord> ConvNodesOf(const std::vector<std::string>& hosts) {
  std::vector<NodeRecord> waiting = Askers(static_cast<int>(hosts.size()));
  for (size_t i = 0; i < hosts.size(); ++i) {
    waiting[i].set_host_name(hosts[i]);
    waiting[i].set_host_id(i + 1);
    waiting[i].set_address(0, "10.0.1." + std::to_string(hosts[i][0]));
  }
  return waiting;
}

TEST_F(PlanSeatsTest, AShareIsOfItsHostInWhateverOrderNodesAsk) {
  flags_.table.conv = "3";
  flags_.table.fc = "0";
  flags_.table.shares = "big.example:2,10.0.1.109:3,elsewhere:7";  // by its name, and m by its address
  ASSERT_TRUE(CheckSeatPlan(flags_).ok()) << CheckSeatPlan(flags_).message();
  std::vector<std::string> hosts = {"big.example", "m", "small"};
  do {
    const auto due = ChooseNodes(ConvNodesOf(hosts), NodesWantedBy(flags_));
    ASSERT_EQ(due.size(), 3U);
    const auto planned = MakeSeatPlanner(flags_)(due);
    ASSERT_TRUE(planned.ok()) << planned.status().message();
    const auto nodes = NodesByHost(*planned, due);
    EXPECT_EQ(nodes.at("big.example")->share(), 2);
    EXPECT_EQ(nodes.at("m")->share(), 3);
    EXPECT_EQ(nodes.at("small")->share(), 1);
  } while (std::next_permutation(hosts.begin(), hosts.end()));
  for (const auto& [wrong, said] :
       {std::pair("2,1", "nodes ask in any order; expected HOST:SHARE"), std::pair("a:0", "a share of 1 or more"),
        std::pair("a:x", "HOST:SHARE with a number"), std::pair("a:", "a share of 1 or more")}) {
    flags_.table.shares = wrong;
    const Status status = CheckSeatPlan(flags_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find(said), std::string::npos) << status.message();
  }
  flags_.table.shares = "a:2";
  flags_.table.batch_per_replica = true;
  EXPECT_NE(CheckSeatPlan(flags_).message().find("PER_REPLICA"), std::string::npos) << "before anybody waits";
}

TEST_F(PlanSeatsTest, SeveralStagesAreFilledInTheOrderOfHosts) {
  flags_.table.conv = "2,1";
  flags_.table.fc = "1,1";
  EXPECT_NE(CheckSeatPlan(flags_).message().find("--cut"), std::string::npos) << CheckSeatPlan(flags_).message();
  flags_.table.cut = "pool1,ip1,ip2";
  ASSERT_TRUE(CheckSeatPlan(flags_).ok()) << CheckSeatPlan(flags_).message();
  EXPECT_EQ(NodesWantedBy(flags_).conv, 3);
  EXPECT_EQ(NodesWantedBy(flags_).fc, 2);
  const auto due = ChooseNodes(ConvNodesOf({"e", "d", "c", "b", "a"}), NodesWantedBy(flags_));
  ASSERT_EQ(due.size(), 5U);
  const auto planned = MakeSeatPlanner(flags_)(due);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  const auto nodes = NodesByHost(*planned, due);
  const std::map<std::string, int> stages = {{"a", 0}, {"b", 0}, {"c", 1}, {"d", 2}, {"e", 3}};
  for (const auto& [host, stage] : stages) EXPECT_EQ(nodes.at(host)->stage(), stage) << host;
  flags_.table.cut.clear();
  flags_.table.plan = "auto";
  EXPECT_NE(CheckSeatPlan(flags_).message().find("--conv asks for 2 stages, and --plan=auto chooses these"),
            std::string::npos);
}

TEST_F(PlanSeatsTest, NodesOfAHostThatIsLeftOutHaveNoPlace) {
  flags_.table.fc = "0";
  flags_.table.exclude = "b,10.0.1.100";
  const NodesWanted wanted = NodesWantedBy(flags_);
  EXPECT_TRUE(ChooseNodes(ConvNodesOf({"a", "b.example.com"}), wanted).empty());
  const auto due = ChooseNodes(ConvNodesOf({"a", "b.example.com", "c", "d"}), wanted);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].host_name(), "a");
  EXPECT_EQ(due[1].host_name(), "c");
}

TEST_F(PlanSeatsTest, AProfileIsOfTheHostThatItNames) {
  flags_.table.plan = "auto";
  flags_.table.sample = "1,8,8";
  flags_.table.fc = "0";
  PlanFlags own;
  own.solver = flags_.solver;
  own.sample = "1,8,8";
  own.inputs.cache_dir = "none";
  own.hosts = "b";
  auto profile = ProfileSolver(own);
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  profile->set_threads(8);
  const auto write = [&](const std::string& host, double times) {
    ProfileConfig other = *profile;
    other.set_host(host);
    for (LayerProfile& layer : *other.mutable_layer()) {
      for (LayerTiming& timing : *layer.mutable_timing()) {
        const auto slower = [&](int64_t ns) { return static_cast<int64_t>(static_cast<double>(ns) * times); };
        timing.set_forward_ns(slower(timing.forward_ns()));
        timing.set_input_gradient_ns(slower(timing.input_gradient_ns()));
        timing.set_weight_gradient_ns(slower(timing.weight_gradient_ns()));
      }
    }
    std::ofstream(folder_ + "/" + host + ".profile") << ProfileText(other);
    return folder_ + "/" + host + ".profile";
  };
  // The plan is one node, so small is the net: on the host whose profile says that it is fast.
  for (const std::string fast : {"a", "c"}) {
    const std::string slow = fast == "a" ? "c" : "a";
    flags_.table.profile = write(slow, 1e4) + "," + write(fast, 1);
    ASSERT_TRUE(CheckSeatPlan(flags_).ok()) << CheckSeatPlan(flags_).message();
    const auto due = ConvNodesOf({"a", "c"});
    const auto planned = MakeSeatPlanner(flags_)(due);
    ASSERT_TRUE(planned.ok()) << planned.status().message();
    EXPECT_EQ(NodesByHost(*planned, due).count(fast), 1U);
    EXPECT_EQ(NodesByHost(*planned, due).count(slow), 0U) << "the slow host has a node";
  }
  flags_.table.profile = folder_ + "/a.profile," + folder_ + "/a.profile";
  EXPECT_NE(CheckSeatPlan(flags_).message().find("both of host \"a\""), std::string::npos);
  flags_.table.profile = folder_ + "/a.profile";
  flags_.table.plan.clear();
  flags_.table.sample.clear();
  EXPECT_NE(CheckSeatPlan(flags_).message().find("--profile goes with --plan=auto"), std::string::npos);
}

TEST_F(PlanSeatsTest, HostsOfAPlanHaveTheirOwnNamesWhereThoseAreUnique) {
  std::vector<NodeRecord> due = ConvNodesOf({"a", "b", "b", "what/cuda:0"});
  EXPECT_EQ(PlannedHostNames(due, {}), (std::vector<std::string>{"a", "b", "host_2", "host_3"}));
  EXPECT_EQ(PlannedHostNames(due, {{"10.0.1.98", "b.profile"}}),
            (std::vector<std::string>{"a", "10.0.1.98", "b", "host_3"}));
  due[1].set_host_id(1);  // of one host with a, in a container
  EXPECT_EQ(PlannedHostNames(due, {}), (std::vector<std::string>{"a", "a", "b", "host_3"}));
}

}  // namespace
}  // namespace hp

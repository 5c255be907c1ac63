// Links by themselves: when messages arrive, to the nanosecond where frames decide nothing.
#include "scheduler/simulator/simulated_network.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

namespace hp {
namespace {

constexpr int64_t kMb = 1'000'000;

/// One node on each host but as said, 1 GB/s: a byte takes 1 ns.
class World : public SimulatedNetworkEvents {
 public:
  explicit World(std::vector<int> host_of_node, int64_t latency_ns = 0) {
    int hosts = 0;
    for (const int host : host_of_node) hosts = std::max(hosts, host + 1);
    for (int host = 0; host < hosts; ++host) job.hosts.push_back({.name = "h", .latency_ns = latency_ns});
    for (const int host : host_of_node) job.nodes.push_back({"n", host, {}});
  }
  void Make() { network = std::make_unique<SimulatedNetwork>(&job, &queue, this); }
  /// When each message arrived, in ns.
  std::map<int64_t, int64_t> Run() {
    std::map<int64_t, int64_t> arrived;
    while (!queue.empty()) {
      const SimulatedEvent event = queue.Take();
      if (event.kind == SimulatedEvent::kArrived) {
        arrived[event.a] = queue.now_ns();
      } else {
        network->Handle(event);
      }
    }
    return arrived;
  }

  SimulatedJob job;
  EventQueue queue;
  std::unique_ptr<SimulatedNetwork> network;
  std::map<int64_t, int64_t> sent;  // by message: when its last byte left

 private:
  void OnSent(Rank, Rank, int64_t message) override { sent[message] = queue.now_ns(); }
  void OnFrame(const SimulatedFrame&) override {}
};

TEST(SimulatedNetwork, AMessageTakesItsBytesOverTheBandwidthAndTheLatency) {
  World world({0, 1}, 5000);
  world.Make();
  world.network->Send(0, 1, 7, 100 * kMb);
  EXPECT_EQ(world.Run().at(7), 100 * kMb + 5000);
  EXPECT_EQ(world.sent.at(7), 100 * kMb);
}

TEST(SimulatedNetwork, TheSlowerLinkCounts) {
  World world({0, 1});
  world.job.hosts[1].bytes_per_s = 2.5e8;
  world.Make();
  world.network->Send(0, 1, 0, 100 * kMb);
  world.network->Send(1, 0, 1, 100 * kMb);
  const auto arrived = world.Run();
  EXPECT_NEAR(arrived.at(0), 4e8, 1e3);
  EXPECT_NEAR(arrived.at(1), 4e8, 1e3);  // the directions do not disturb each other
}

TEST(SimulatedNetwork, MessagesOfOneConnectionGoOneBehindTheOther) {
  World world({0, 1});
  world.Make();
  world.network->Send(0, 1, 0, 30 * kMb);
  world.network->Send(0, 1, 1, 10 * kMb);
  const auto arrived = world.Run();
  EXPECT_EQ(arrived.at(0), 30 * kMb);
  EXPECT_EQ(arrived.at(1), 40 * kMb);
}

TEST(SimulatedNetwork, NodesOfOneHostShareItsLink) {
  World world({0, 0, 1, 2});
  world.Make();
  world.network->Send(0, 2, 0, 50 * kMb);
  world.network->Send(1, 3, 1, 100 * kMb);
  const auto arrived = world.Run();
  EXPECT_NEAR(arrived.at(0), 100e6, 1e6);  // half the link each, until the first is through
  EXPECT_NEAR(arrived.at(1), 150e6, 1e6);
}

TEST(SimulatedNetwork, SendersShareTheLinkOfTheirReceiver) {
  World world({0, 1, 2, 3});
  world.Make();
  for (int from = 1; from <= 3; ++from) world.network->Send(from, 0, from, 50 * kMb);
  for (const auto& [message, ns] : world.Run()) EXPECT_NEAR(ns, 150e6, 1e6) << message;
}

// Node 1's link is full of what 0 and 2 send it. 0's link has room for more than its half, which is the fair share of
// what it sends to 3.
TEST(SimulatedNetwork, WhoWaitsForABusyReceiverLeavesItsLinkToOthers) {
  World world({0, 1, 2, 3});
  world.job.hosts[1].bytes_per_s = 5e8;
  world.Make();
  world.network->Send(0, 1, 0, 100 * kMb);
  world.network->Send(2, 1, 1, 100 * kMb);
  world.network->Send(0, 3, 2, 75 * kMb);
  const auto arrived = world.Run();
  EXPECT_NEAR(arrived.at(0), 400e6, 4e6);
  EXPECT_NEAR(arrived.at(1), 400e6, 4e6);
  EXPECT_NEAR(arrived.at(2), 100e6, 2e6);  // three quarters of 1 GB/s
}

TEST(SimulatedNetwork, WithinAHostMessagesTakeItsMemory) {
  World world({0, 0, 1});
  world.job.hosts[0].memory_bytes_per_s = 1e10;
  world.Make();
  world.network->Send(0, 1, 0, 100 * kMb);
  world.network->Send(0, 2, 1, 100 * kMb);
  const auto arrived = world.Run();
  EXPECT_NEAR(arrived.at(0), 10 * kMb, 1e3);
  EXPECT_EQ(arrived.at(1), 100 * kMb);
}

TEST(SimulatedNetwork, ControlOvertakesWhatIsNotOnItsWay) {
  World world({0, 1, 2}, 1000);
  world.Make();
  world.network->Send(0, 1, 0, 100 * kMb);
  EXPECT_LE(world.network->ControlArrivesNs(0, 1), 3 * (256 << 10) + 1000);
  EXPECT_EQ(world.network->ControlArrivesNs(0, 2), 1000);
  EXPECT_EQ(world.network->ControlArrivesNs(1, 0), 1000);
}

// A long latency needs a long window: what is under way must fill the link.
TEST(SimulatedNetwork, ALongLinkIsKeptBusy) {
  World world({0, 1}, 10'000'000);
  world.Make();
  world.network->Send(0, 1, 0, 100 * kMb);
  EXPECT_EQ(world.Run().at(0), 110 * kMb);
}

TEST(SimulatedNetwork, AnEmptyMessageArrives) {
  World world({0, 1}, 1000);
  world.Make();
  world.network->Send(0, 1, 0, 0);
  EXPECT_EQ(world.Run().at(0), 1000);
}

}  // namespace
}  // namespace hp

// Tensors that go from GPU to GPU of one host: which road they take changes no bit, and nobody hangs when a copy or a
// node fails. The GPUs are fakes: their copies are done late, in memory that nobody else can touch.
#include "test/cluster/contract_fixture.h"
#include "test/support/fake_device.h"
#include "test/support/fake_host.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <string>

namespace hp::test {
namespace {

/// How a job's GPUs are laid out, and what went over their bus.
struct Bus {
  FakeHost host;
  std::function<bool(Rank)> on_gpu = [](Rank) { return true; };
  bool one_process = true;  ///< of all nodes; else each says that it has one of its own
  std::function<uint64_t(Rank)> host_id = [](Rank) { return 1; };
  std::function<void(Rank, FakeGpu*)> on_open = [](Rank, FakeGpu*) {};
  std::atomic<size_t> uploaded = 0, downloaded = 0;
};

ClusterSpec On(Bus* bus, ClusterSpec table, bool copies = true) {
  table.device_of = [bus](Rank rank) { return bus->on_gpu(rank) ? "cuda:" + std::to_string(rank) : "cpu"; };
  table.device_copies = copies ? TransportConfig::ON : TransportConfig::OFF;
  table.open_device = [bus](Rank rank) -> StatusOr<NodeDevice> {
    if (!bus->on_gpu(rank)) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
    FakeGpu::Options options{.index = rank, .seed = static_cast<uint32_t>(rank + 1), .protect = true};
    options.host = &bus->host;
    options.on_close = [bus](const FakeGpu& gpu) {
      bus->uploaded += gpu.uploaded();
      bus->downloaded += gpu.downloaded();
    };
    const std::string process = bus->one_process ? "all" : std::to_string(rank);
    HP_ASSIGN_OR_RETURN(NodeDevice device,
                        FakeDevice(options, RoutingTableConfig::FP32, {bus->host_id(rank), process}));
    bus->on_open(rank, static_cast<FakeGpu*>(device.device.get()));
    return device;
  };
  return table;
}

class GpuCopiesTest : public ContractTest {
 protected:
  /// Trains with copies and without. @return bytes that went from GPU to GPU instead of through the host.
  static size_t Compare(Bus* with, const ClusterSpec& table, const std::string& solver) {
    Bus without;
    without.on_gpu = with->on_gpu;
    const ClusterResult staged = TrainCluster(On(&without, table, false), solver);
    EXPECT_TRUE(staged.status.ok()) << staged.status;
    EXPECT_EQ(without.host.copied(), 0u) << "device_copies: OFF";
    const ClusterResult copied = TrainCluster(On(with, table), solver);
    EXPECT_TRUE(copied.status.ok()) << copied.status;
    EXPECT_EQ(copied.params, staged.params);
    EXPECT_EQ(copied.losses, staged.losses);
    EXPECT_FALSE(staged.losses.empty());
    EXPECT_EQ(without.uploaded - with->uploaded, without.downloaded - with->downloaded);
    return without.uploaded - with->uploaded;
  }
  /// Bytes with which `pairs` pairs of nodes found out whether they can.
  static size_t ProbeBytes(int pairs) { return 2 * pairs * kCopyProbeBytes; }
};

TEST_F(GpuCopiesTest, WhatIsCopiedPassesNoHost) {
  const std::string solver = Solver("", false, 8);
  for (bool tcp : {true, false}) {
    Bus bus;
    const size_t spared = Compare(&bus, Table(2, {2}, 3, 1, tcp), solver);
    EXPECT_GT(spared, 0u);
    EXPECT_EQ(bus.host.copied(), spared + ProbeBytes(6));
    EXPECT_EQ(bus.host.opened(), 0) << "IPC within one process";
  }
}

TEST_F(GpuCopiesTest, BetweenProcessesMemoryIsOpenedOnceAndClosed) {
  Bus bus;
  bus.one_process = false;
  const size_t spared = Compare(&bus, Table(2, {2}, 3, 1, true), Solver("", false, 8));
  EXPECT_GT(spared, 0u);
  EXPECT_EQ(bus.host.copied(), spared + ProbeBytes(6));
  EXPECT_GE(bus.host.opened(), 2 * 6 + 2 * 4) << "a probe for each pair and way, memory for each that talks";
  EXPECT_EQ(bus.host.open(), 0);
}

TEST_F(GpuCopiesTest, TheSameBitsWhateverTheTiming) {
  Bus bus;
  CheckSameBits(On(&bus, Table(2, {2, 1}, 3, 2, false)), Solver("", false, 8), {21, 22});
  EXPECT_GT(bus.host.copied(), 0u);
}

TEST_F(GpuCopiesTest, SomePeersByCopyAndOthersThroughTheHost) {
  const std::string solver = Solver("", false, 8);
  for (int cpu : {0, 1, 3}) {  // a replica beside one on a GPU, or a shard
    SCOPED_TRACE(cpu);
    Bus bus;
    bus.on_gpu = [cpu](Rank rank) { return rank != cpu; };
    const size_t spared = Compare(&bus, Table(2, {2}, 3, 1, true), solver);
    EXPECT_GT(spared, 0u);
    EXPECT_EQ(bus.host.copied(), spared + ProbeBytes(3));
  }
}

TEST_F(GpuCopiesTest, OtherTablesGiveTheSameNet) {
  Bus all, odd;
  odd.on_gpu = [](Rank rank) { return rank % 2 == 1; };
  Check(Solver(""), {On(&all, Table(3, {1, 2}, 2, 0, true)), On(&odd, Table(3, {3}, 2, 1, true))});
  EXPECT_GT(all.host.copied(), ProbeBytes(15));
  EXPECT_GT(odd.host.copied(), ProbeBytes(3));
}

/// Of four GPUs one can't be reached, or is on another host: its pairs stay as they were.
TEST_F(GpuCopiesTest, AGpuThatCantBeReachedIsLeftOut) {
  const std::string solver = Solver("", false, 8);
  Bus hidden, far;
  hidden.host.Hide("0000:00:02.0");
  far.host_id = [](Rank rank) { return rank == 2 ? 5 : 6; };
  for (Bus* bus : {&hidden, &far}) {
    const size_t spared = Compare(bus, Table(2, {2}, 3, 1, true), solver);
    EXPECT_GT(spared, 0u);
    EXPECT_GE(bus->host.copied(), spared + ProbeBytes(3));
    EXPECT_LE(bus->host.copied(), spared + ProbeBytes(6));
  }
}

/// Also where the GPU is asked for nothing else before the copy has arrived: one micro-batch at a time.
TEST_F(GpuCopiesTest, ACopyThatFailsEndsTheJob) {
  for (const ClusterSpec& table : {Table(2, {2}, 3, 1, true), Table(1, {1}, 1, 1, true)}) {
    Bus bus;
    bus.host.FailAfter(100'000);
    const ClusterResult result = TrainCluster(On(&bus, table), Solver(""));
    EXPECT_EQ(result.status.code(), StatusCode::kInternal) << result.status;
    EXPECT_THAT(result.status.message(), testing::ContainsRegex("cuda:[0-3]: the GPU fell off the bus in a copy"));
    EXPECT_EQ(result.losses.count(49), 0u);
  }
}

/// A node is lost while others copy into its memory and it into theirs: all unwind, and nobody touches memory that is
/// gone.
TEST_F(GpuCopiesTest, ALostNodeEndsTheJob) {
  for (bool one_process : {true, false}) {
    Bus bus;
    bus.one_process = one_process;
    std::atomic<FakeGpu*> second_shard = nullptr;
    bus.on_open = [&](Rank rank, FakeGpu* gpu) {
      if (rank == 3) second_shard = gpu;
    };
    ClusterSpec table = On(&bus, Table(2, {2}, 5, 3, true));
    table.on_loss = [&](int64_t clock) {
      if (clock == 3) second_shard.load()->Fail(InternalError("cuda:3: fell off the bus"));
    };
    const ClusterResult result = TrainCluster(table, Solver(""));
    EXPECT_EQ(result.status.code(), StatusCode::kInternal) << result.status;
    EXPECT_THAT(result.status.message(), testing::HasSubstr("fell off the bus"));
    EXPECT_EQ(bus.host.open(), 0);
  }
}

}  // namespace
}  // namespace hp::test

// GPU memory: which way an adapter reaches it, and that nobody reads what arrived before it can be seen. The "GPU" here
// is host memory that the transport may only treat as a GPU's.
#include "base/mutex.h"
#include "test/unit/transport/verbs_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// An empty /sys, or one with modules loaded.
class FakeSys {
 public:
  FakeSys() : root_(testing::TempDir() + "/sys" + std::to_string(getpid())) {
    std::filesystem::create_directories(root_ + "/module");
  }
  ~FakeSys() { std::filesystem::remove_all(root_); }
  void Load(const std::string& module) { std::filesystem::create_directories(root_ + "/module/" + module); }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

class VerbsGpuTest : public testing::Test {
 protected:
  void Connect(GpuDirect gpudirect, bool takes_dma_buf, const std::string& level = "SYS") {
    FakeVerbs::Device device = FakeVerbs::Roce();
    device.takes_dma_buf = takes_dma_buf;
    pair_.emplace(VerbsPair::Options{.settings = {.gpudirect = gpudirect, .gpudirect_level = level},
                                     .devices = {{{device}, {device}}},
                                     .sys_root = sys_.root()});
    pair_->Connect();
  }
  /// `others` nodes beside the two, with dma-bufs and send queues of `depth`.
  void ConnectMany(int others, uint32_t depth) {
    pair_.emplace(VerbsPair::Options{
        .settings = {.gpudirect = GpuDirect::kDmaBuf, .send_depth = depth}, .sys_root = sys_.root(), .others = others});
    pair_->Connect();
  }
  /// `to` grants and `from` writes; what becomes of it is `to`'s kGrantEnded.
  void BeginTransfer(Rank from, Rank to, const PlaceTag& tag, std::span<std::byte> place) {
    if (source_.empty()) source_ = Pattern(place_.size(), 9);
    const RemoteGrant grant = pair_->Grant(to, from, tag, place);
    EXPECT_TRUE(pair_->node(from)->Write(to, tag, grant, std::span(source_).first(place.size())).ok());
  }
  DeviceMemory Gpu(std::span<std::byte> bytes) {
    DeviceMemory memory{.bytes = bytes, .device = 3, .pci_address = ""};
    memory.export_dma_buf = [this](bool pcie_mapping) -> StatusOr<DmaBuf> {
      exports_.push_back(pcie_mapping);
      if (pcie_mapping && !has_pcie_mapping_) return FailedPrecondition("no PCIe mapping");
      return DmaBuf{dup(STDOUT_FILENO), 8192};
    };
    memory.copy = [this](std::byte* to, const std::byte* from, size_t count) {
      ++copies_;
      std::memcpy(to, from, count);
      return OkStatus();
    };
    return memory;
  }
  /// Sends from the "GPU" of node 0 to that of node 1.
  void Transfer() {
    source_ = Pattern(place_.size(), 9);
    auto there = pair_->node(1)->RegisterDevice(Gpu(place_)), here = pair_->node(0)->RegisterDevice(Gpu(source_));
    ASSERT_TRUE(there.ok()) << there.status();
    ASSERT_TRUE(here.ok()) << here.status();
    pair_->Transfer(0, 1, {.msg_id = 1}, source_, place_);
    EXPECT_TRUE(Same(place_, source_));
  }
  std::vector<FakeMr> OfPlace() {
    std::vector<FakeMr> found;
    for (const FakeMr& mr : pair_->host(1).registrations()) {
      if (mr.addr == place_.data()) found.push_back(mr);
    }
    return found;
  }

  FakeSys sys_;
  bool has_pcie_mapping_ = true;
  std::vector<bool> exports_;
  std::atomic<int> copies_ = 0;
  std::vector<std::byte> place_ = std::vector<std::byte>(100'000), source_;
  std::optional<VerbsPair> pair_;
};

TEST_F(VerbsGpuTest, DmaBufWithThePcieMappingComesFirst) {
  sys_.Load("nvidia_peermem");
  Connect(GpuDirect::kAuto, /*takes_dma_buf=*/true);
  Transfer();
  EXPECT_THAT(exports_, ElementsAre(true, true));
  EXPECT_EQ(copies_, 0);
  const std::vector<FakeMr> regions = OfPlace();
  ASSERT_EQ(regions.size(), 3u) << "arena, place, flush";
  for (const FakeMr& mr : regions) {
    EXPECT_GE(mr.dma_buf, 0);
    EXPECT_EQ(mr.offset, 8192u);
  }
  EXPECT_EQ(regions[0].access, IBV_ACCESS_RELAXED_ORDERING);
  EXPECT_EQ(regions[1].access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  EXPECT_EQ(regions[2].access, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(regions[0].pd, regions[1].pd);
  EXPECT_NE(regions[2].pd, regions[1].pd) << "what is readable has a protection domain of its own";
}

TEST_F(VerbsGpuTest, APlaceInsideADmaBufHasItsOffset) {
  Connect(GpuDirect::kAuto, true);
  std::vector<std::byte> arena(1 << 20);
  auto region = pair_->node(1)->RegisterDevice(Gpu(arena));
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(pair_->node(1)->Grant(0, {.msg_id = 1}, std::span(arena).subspan(4096, 100)).ok());
  const FakeMr place = pair_->host(1).registrations().back();
  EXPECT_EQ(place.offset, 8192u + 4096);
  EXPECT_EQ(place.length, 100u);
}

TEST_F(VerbsGpuTest, WithoutThePcieMappingThePlainDmaBuf) {
  has_pcie_mapping_ = false;
  Connect(GpuDirect::kAuto, true);
  Transfer();
  EXPECT_THAT(exports_, ElementsAre(true, false, true, false));
  EXPECT_GE(OfPlace()[0].dma_buf, 0);
}

TEST_F(VerbsGpuTest, WithoutDmaBufPeermem) {
  sys_.Load("nvidia_peermem");
  Connect(GpuDirect::kAuto, /*takes_dma_buf=*/false);
  Transfer();
  const std::vector<FakeMr> regions = OfPlace();
  ASSERT_EQ(regions.size(), 3u);
  EXPECT_EQ(regions[0].dma_buf, -1);
  EXPECT_EQ(copies_, 0);
}

TEST_F(VerbsGpuTest, WithoutEitherStagedThroughTheHost) {
  Connect(GpuDirect::kAuto, false);
  Transfer();
  EXPECT_TRUE(OfPlace().empty()) << "the adapter never sees the GPU's memory";
  EXPECT_EQ(copies_, 2) << "one on each side";
}

TEST_F(VerbsGpuTest, AWayCanBeForced) {
  sys_.Load("nvidia_peermem");
  Connect(GpuDirect::kStaged, true);
  Transfer();
  EXPECT_TRUE(exports_.empty());
  EXPECT_EQ(copies_, 2);
  Connect(GpuDirect::kPeermem, true);
  Transfer();
  EXPECT_TRUE(exports_.empty());
  Connect(GpuDirect::kDmaBuf, false);
  const auto refused = pair_->node(0)->RegisterDevice(Gpu(place_));
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("the memory of GPU 3 can't be reached: dma-buf"));
}

TEST_F(VerbsGpuTest, TooFarAwayIsStaged) {
  Connect(GpuDirect::kAuto, true, "PHB");
  Transfer();
  EXPECT_TRUE(exports_.empty());
  EXPECT_EQ(copies_, 2);
}

TEST_F(VerbsGpuTest, NothingIsReportedBeforeItsFlush) {
  Connect(GpuDirect::kAuto, true);
  std::atomic<int> writes = 0, reads = 0;
  // Reads are the flush: they must come behind the write, over a queue pair that leads to itself.
  pair_->fabric().on_request = [&](const FakeQp& from, const ibv_send_wr& request) {
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) ++writes;
    if (request.opcode == IBV_WR_RDMA_READ) {
      ++reads;
      EXPECT_EQ(writes, 1);
      EXPECT_EQ(from.attributes.dest_qp_num, from.qp_num);
      EXPECT_EQ(request.sg_list->length, 1u);
    }
    return WireFault{};
  };
  Transfer();
  EXPECT_EQ(reads, 1);
}

/// What arrived can't be used, and nobody else would end the job: so the connection fails.
TEST_F(VerbsGpuTest, AFlushThatFailsFailsTheConnection) {
  Connect(GpuDirect::kAuto, true);
  pair_->fabric().on_request = [](const FakeQp&, const ibv_send_wr& request) {
    return request.opcode == IBV_WR_RDMA_READ ? WireFault{WireFault::kFail, IBV_WC_REM_ACCESS_ERR} : WireFault{};
  };
  auto region = pair_->node(1)->RegisterDevice(Gpu(place_));
  ASSERT_TRUE(region.ok());
  const PlaceTag tag{.msg_id = 1};
  BeginTransfer(0, 1, tag, place_);
  pair_->node(1).Await(Event::kClosed);
  for (const Status& status :
       {pair_->node(1).Get(Event::kGrantEnded, tag).status, pair_->node(1).events(Event::kClosed)[0].status}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("flush of GPU memory: "));
  }
}

TEST_F(VerbsGpuTest, AStagedCopyThatFailsFailsTheConnection) {
  Connect(GpuDirect::kStaged, true);
  DeviceMemory memory = Gpu(place_);
  memory.copy = [](std::byte*, const std::byte*, size_t) { return InternalError("the GPU is gone"); };
  auto region = pair_->node(1)->RegisterDevice(memory);
  ASSERT_TRUE(region.ok());
  const PlaceTag tag{.msg_id = 1};
  BeginTransfer(0, 1, tag, place_);
  pair_->node(1).Await(Event::kClosed);
  for (const Status& status :
       {pair_->node(1).Get(Event::kGrantEnded, tag).status, pair_->node(1).events(Event::kClosed)[0].status}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("the GPU is gone"));
  }
}

/// Tensors of many peers arrive between two looks at the flushes.
TEST_F(VerbsGpuTest, MoreFlushesThanTheSendQueueHolds) {
  constexpr int kPeers = 7;
  ConnectMany(kPeers - 1, 2);
  auto region = pair_->node(0)->RegisterDevice(Gpu(place_));
  ASSERT_TRUE(region.ok());
  Mutex mutex;
  CondVar changed;
  bool is_busy = false, may_go_on = false;
  pair_->node(0).ReactBy([&](const Event& event) {
    if (event.kind != Event::kMessage) return;
    MutexLock lock(&mutex);
    is_busy = true;
    changed.SignalAll();
    while (!may_go_on) changed.Wait(&mutex);
  });
  const auto place = [this](Rank from) { return std::span(place_).subspan(static_cast<size_t>(from) * 8192, 5000); };
  std::vector<RemoteGrant> grants(1 + kPeers);
  for (Rank from = 1; from <= kPeers; ++from) grants[from] = pair_->Grant(0, from, {.msg_id = 1}, place(from));
  ASSERT_TRUE(pair_->node(1)->Send(0, 1, {}).ok());
  {
    MutexLock lock(&mutex);
    while (!is_busy) changed.Wait(&mutex);
  }
  source_ = Pattern(place_.size(), 9);
  for (Rank from = 1; from <= kPeers; ++from) {
    ASSERT_TRUE(pair_->node(from)->Write(0, {.msg_id = 1}, grants[from], std::span(source_).first(5000)).ok());
  }
  {
    MutexLock lock(&mutex);
    may_go_on = true;
    changed.SignalAll();
  }
  pair_->node(0).Await(Event::kGrantEnded, kPeers);
  for (const Event& event : pair_->node(0).events(Event::kGrantEnded)) EXPECT_TRUE(event.status.ok()) << event.status;
  for (Rank from = 1; from <= kPeers; ++from) {
    EXPECT_TRUE(Same(place(from), std::span(source_).first(5000))) << "of node " << from;
  }
}

TEST_F(VerbsGpuTest, AFlushThatCannotBePreparedLeavesNothingForTheNext) {
  ConnectMany(1, 128);
  auto region = pair_->node(0)->RegisterDevice(Gpu(place_));
  ASSERT_TRUE(region.ok());
  FakeVerbs& host = pair_->host(0);
  const std::vector<GidEntry> gids = FakeVerbs::Roce().gids;
  host.SetGids({});
  BeginTransfer(1, 0, {.msg_id = 1}, std::span(place_).first(5000));
  EXPECT_EQ(pair_->node(0).Get(Event::kGrantEnded, {.msg_id = 1}).status.code(), StatusCode::kUnavailable);
  host.SetGids(gids);
  BeginTransfer(2, 0, {.msg_id = 2}, std::span(place_).first(5000));
  EXPECT_TRUE(pair_->node(0).Get(Event::kGrantEnded, {.msg_id = 2}).status.ok());
}

/// The peer ends the connection behind its last tensor, which is there and waits for its flush.
TEST_F(VerbsGpuTest, AnEndThatMeetsAFlushWaitsForIt) {
  Connect(GpuDirect::kAuto, true);
  auto region = pair_->node(1)->RegisterDevice(Gpu(place_));
  ASSERT_TRUE(region.ok());
  std::atomic<bool> is_flushing = false, may_end = false;
  pair_->fabric().on_request = [&](const FakeQp&, const ibv_send_wr& request) {
    if (request.opcode != IBV_WR_RDMA_READ || may_end) return WireFault{};
    is_flushing = true;
    return WireFault{WireFault::kHold};
  };
  const PlaceTag tag{.msg_id = 1};
  BeginTransfer(0, 1, tag, place_);
  while (!is_flushing) std::this_thread::yield();
  for (Rank rank : {0, 1}) pair_->node(rank)->Shutdown(1 - rank);
  pair_->node(0).Await(Event::kClosed);
  EXPECT_EQ(pair_->node(0).events(Event::kClosed)[0].status.code(), StatusCode::kCancelled);
  may_end = true;
  pair_->fabric().Release();
  EXPECT_TRUE(pair_->node(1).Get(Event::kGrantEnded, tag).status.ok());
  pair_->node(1).Await(Event::kClosed);
  EXPECT_EQ(pair_->node(1).events(Event::kClosed)[0].status.code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace hp

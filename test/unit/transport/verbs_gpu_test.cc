// GPU memory: which way an adapter reaches it, and that nobody reads what arrived before it can be seen. The "GPU" here
// is host memory that the transport may only treat as a GPU's.
#include "test/unit/transport/verbs_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

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

TEST_F(VerbsGpuTest, AFlushThatFailsEndsTheGrantWithIt) {
  Connect(GpuDirect::kAuto, true);
  pair_->fabric().on_request = [](const FakeQp&, const ibv_send_wr& request) {
    return request.opcode == IBV_WR_RDMA_READ ? WireFault{WireFault::kFail, IBV_WC_REM_ACCESS_ERR} : WireFault{};
  };
  auto region = pair_->node(1)->RegisterDevice(Gpu(place_));
  ASSERT_TRUE(region.ok());
  const PlaceTag tag{.msg_id = 1};
  const RemoteGrant grant = pair_->Grant(1, 0, tag, place_);
  source_ = Pattern(place_.size(), 9);
  ASSERT_TRUE(pair_->node(0)->Write(1, tag, grant, source_).ok());
  const Status status = pair_->node(1).Get(Event::kGrantEnded, tag).status;
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("flush of GPU memory"));
}

}  // namespace
}  // namespace hp

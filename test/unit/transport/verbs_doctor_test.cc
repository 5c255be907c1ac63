// What a host is told about its RDMA.
#include "test/support/fake_verbs.h"
#include "transport/verbs/doctor.h"
#include "transport/verbs/link.h"
#include "transport/verbs/real_verbs.h"
#include "transport/verbs/verbs_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace fs = std::filesystem;

/// A /sys with one GPU and one adapter below the same host bridge.
class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    sys_ = testing::TempDir() + "/doctor" + std::to_string(getpid());
    const std::string bridge = sys_ + "/devices/pci0000:3a";
    fs::create_directories(bridge + "/0000:3a:01.0/0000:3b:00.0");
    fs::create_directories(bridge + "/0000:3a:02.0/0000:3c:00.0");
    fs::create_directories(sys_ + "/bus/pci/devices");
    fs::create_directories(sys_ + "/class/infiniband/fake0");
    Write("/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0/vendor", "0x10de");
    Write("/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0/class", "0x030200");
    Write("/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0/numa_node", "1");
    Write("/devices/pci0000:3a/0000:3a:02.0/0000:3c:00.0/numa_node", "0");
    fs::create_directory_symlink(bridge + "/0000:3a:01.0/0000:3b:00.0", sys_ + "/bus/pci/devices/0000:3b:00.0");
    fs::create_directory_symlink(bridge + "/0000:3a:02.0/0000:3c:00.0", sys_ + "/class/infiniband/fake0/device");
  }
  void TearDown() override {
    fs::remove_all(sys_);
    EXPECT_THAT(fabric_.faults(), IsEmpty());
  }
  void Write(const std::string& path, const std::string& text) { std::ofstream(sys_ + path) << text << "\n"; }

  /// "good what" and "BAD what -> advice".
  std::vector<std::string> Examine(const std::vector<FakeVerbs::Device>& devices, const VerbsSettings& settings = {}) {
    FakeVerbs verbs(&fabric_, devices);
    std::vector<std::string> lines;
    for (const Finding& finding : ExamineRdma(settings, "127.0.0.1", sys_, &verbs)) {
      EXPECT_EQ(finding.good, finding.advice.empty()) << finding.what;
      lines.push_back((finding.good ? "good " : "BAD ") + finding.what + " -> " + finding.advice);
    }
    return lines;
  }

  std::string sys_;
  FakeFabric fabric_;
};

TEST_F(DoctorTest, AGoodHost) {
  const std::vector<std::string> lines = Examine({FakeVerbs::Roce()});
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("good fake0: "), HasSubstr("NUMA node 0"))));
  EXPECT_THAT(lines, Contains(HasSubstr("good fake0:1: active, Ethernet (RoCE), MTU 4096")));
  EXPECT_THAT(lines, Contains(HasSubstr("good fake0:1: GID 3, ::ffff:127.0.0.1, of 4")));
  EXPECT_THAT(lines, Contains(HasSubstr("good this host uses fake0:1")));
  EXPECT_THAT(lines, Contains(HasSubstr("good fake0: takes dma-buf")));
  EXPECT_THAT(lines, Contains(HasSubstr("good librdmacm is ready")));
  EXPECT_THAT(lines, Contains(HasSubstr("good nvidia-peermem is not loaded")));
  EXPECT_THAT(lines, Contains(HasSubstr("good GPU 0000:3b:00.0: NUMA node 1, PHB from fake0")));
}

TEST_F(DoctorTest, WhatIsWrongComesWithAdvice) {
  FakeVerbs::Device down = FakeVerbs::Roce();
  down.state = IBV_PORT_DOWN;
  down.mtu = IBV_MTU_1024;
  down.takes_dma_buf = false;
  down.gids = {{GidOfAddress("fe80::1"), 0, 2}};
  fs::create_directories(sys_ + "/module/nvidia_peermem");
  const std::vector<std::string> lines = Examine({down});
  EXPECT_THAT(lines, Contains(HasSubstr("BAD fake0:1 is down (cable, or `ip link set ... up`)")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD fake0:1: MTU 1024"), HasSubstr("mtu 9000"))));
  EXPECT_THAT(lines, Contains(HasSubstr("is link-local -> give its network interface an address")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD no usable RDMA device here"), HasSubstr("AUTO talks TCP"))));
  EXPECT_THAT(lines, Contains(HasSubstr("good fake0: does not take dma-buf")));
  EXPECT_THAT(lines, Contains(HasSubstr("good nvidia-peermem is loaded")));
}

TEST_F(DoctorTest, AHostWithoutADevice) {
  const std::vector<std::string> lines = Examine({});
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD no RDMA device"), HasSubstr("rdma link add rxe0"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("this host uses"))));
}

TEST(VerbsLibraryTest, AHostWithoutTheLibraries) {
  LibibVerbs verbs("libibverbs-none.so.1", "librdmacm-none.so.1");
  EXPECT_EQ(verbs.Loaded().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(verbs.Loaded().message(), AllOf(HasSubstr("libibverbs-none.so.1"), HasSubstr("install libibverbs1")));
  int count = 0;
  EXPECT_EQ(verbs.GetDeviceList(&count), nullptr);
  EXPECT_EQ(errno, ELIBACC);
  EXPECT_EQ(verbs.CmCreateEventChannel(), nullptr);
  const std::vector<Finding> findings = ExamineRdma({}, "", "/sys", &verbs);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].what, HasSubstr("libibverbs-none.so.1"));
  VerbsOptions options;
  options.verbs = &verbs;
  EXPECT_EQ(OpenVerbsHost(options).status().message(), verbs.Loaded().message());
}

TEST(VerbsLibraryTest, ALibraryWithoutItsFunctions) {
  LibibVerbs verbs("libc.so.6", "libc.so.6");
  EXPECT_THAT(verbs.Loaded().message(), HasSubstr("libc.so.6 has no ibv_get_device_list"));
  EXPECT_EQ(verbs.CmCreateEventChannel(), nullptr);
}

TEST(VerbsLibraryTest, TheHostsOwn) {
  // Debian's libibverbs-dev, with which this was built, brings the libraries.
  LibibVerbs verbs;
  EXPECT_TRUE(verbs.Loaded().ok()) << verbs.Loaded();
  EXPECT_TRUE(RdmacmLibrary::Load("librdmacm.so.1").ok());
}

}  // namespace
}  // namespace hp

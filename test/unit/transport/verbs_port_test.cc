// Which device, port and GID a node uses.
#include "test/support/fake_verbs.h"
#include "transport/verbs/pci.h"
#include "transport/verbs/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using testing::HasSubstr;

GidEntry Entry(uint32_t index, int version, const std::string& address) {
  return {GidOfAddress(address), index, version};
}

uint32_t Chosen(const std::vector<GidEntry>& gids, const std::string& address, const VerbsSettings& settings = {}) {
  const StatusOr<GidEntry> entry = ChooseGid(gids, settings, address);
  EXPECT_TRUE(entry.ok()) << entry.status();
  return entry.ok() ? entry->index : 99;
}

// The order of a mlx5 port with two addresses.
const std::vector<GidEntry> kPort = {Entry(0, 1, "fe80::1"),  Entry(1, 2, "fe80::1"),  Entry(2, 1, "10.0.0.7"),
                                     Entry(3, 2, "10.0.0.7"), Entry(4, 2, "10.1.0.7"), Entry(5, 2, "2001:db8::7")};

TEST(ChooseGid, TakesTheAddressOfTheNodeOverRoceV2) {
  EXPECT_EQ(Chosen(kPort, "10.0.0.7"), 3u);
  EXPECT_EQ(Chosen(kPort, "10.1.0.7"), 4u);
  EXPECT_EQ(Chosen(kPort, "2001:db8::7"), 5u);
}

TEST(ChooseGid, TakesTheFamilyOfTheBootstrapWhereTheAddressIsAnother) {
  EXPECT_EQ(Chosen(kPort, "192.168.1.1"), 3u);
  EXPECT_EQ(Chosen(kPort, "2001:db8::99"), 5u);
  EXPECT_EQ(Chosen(kPort, ""), 3u);
}

TEST(ChooseGid, PrefersV2ToAnAddressThatHasV1Only) {
  EXPECT_EQ(Chosen({Entry(0, 1, "10.0.0.7"), Entry(1, 2, "2001:db8::7")}, "10.0.0.7"), 1u);
}

TEST(ChooseGid, TakesLinkLocalOnlyWhereThereIsNoOther) {
  EXPECT_EQ(Chosen({Entry(0, 2, "fe80::1"), Entry(1, 1, "10.0.0.7")}, "fe80::2"), 1u);
  EXPECT_EQ(Chosen({Entry(0, 1, "fe80::1"), Entry(1, 2, "fe80::1")}, "10.0.0.7"), 1u);
}

TEST(ChooseGid, SettingsHold) {
  EXPECT_EQ(Chosen(kPort, "10.0.0.7", {.gid_index = 1}), 1u);
  EXPECT_EQ(Chosen(kPort, "10.0.0.7", {.roce_version = 1}), 2u);
  const StatusOr<GidEntry> none = ChooseGid(kPort, {.gid_index = 9}, "10.0.0.7");
  EXPECT_EQ(none.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.status().message(), HasSubstr("no GID with index 9"));
  EXPECT_THAT(none.status().message(), HasSubstr("3: ::ffff:10.0.0.7 (RoCE v2)"));
}

TEST(HcaMatches, AsNccl) {
  EXPECT_TRUE(HcaMatches("", "mlx5_0", 1));
  EXPECT_TRUE(HcaMatches("mlx5", "mlx5_0", 1));
  EXPECT_TRUE(HcaMatches("mlx5_1,mlx5_0", "mlx5_0", 2));
  EXPECT_TRUE(HcaMatches("mlx5_0:2", "mlx5_0", 2));
  EXPECT_FALSE(HcaMatches("mlx5_0:1", "mlx5_0", 2));
  EXPECT_TRUE(HcaMatches("mlx5_1", "mlx5_10", 1));
  EXPECT_FALSE(HcaMatches("=mlx5_1", "mlx5_10", 1));
  EXPECT_TRUE(HcaMatches("=mlx5_1,mlx5_10", "mlx5_10", 1));
  EXPECT_FALSE(HcaMatches("^mlx5_0", "mlx5_0", 1));
  EXPECT_TRUE(HcaMatches("^mlx5_0", "mlx5_1", 1));
  EXPECT_TRUE(HcaMatches("^=mlx5_1", "mlx5_10", 1));
}

FakeVerbs::Device Device(const std::string& name, const std::string& address, ibv_port_state state = IBV_PORT_ACTIVE) {
  FakeVerbs::Device device;
  device.name = name;
  device.state = state;
  device.gids = {Entry(0, 2, address)};
  return device;
}

std::string Best(const std::vector<FakeVerbs::Device>& devices, const VerbsSettings& settings,
                 const std::string& address) {
  FakeFabric fabric;
  FakeVerbs verbs(&fabric, devices);
  StatusOr<OpenPort> port = OpenBestPort(&verbs, settings, address);
  return port.ok() ? port->device : port.status().message();
}

TEST(OpenBestPort, TakesTheOneWithTheNodesAddressElseTheFirst) {
  const std::vector<FakeVerbs::Device> devices = {Device("down", "10.0.0.1", IBV_PORT_DOWN), Device("a", "10.0.0.2"),
                                                  Device("b", "10.0.0.3")};
  EXPECT_EQ(Best(devices, {}, "10.0.0.3"), "b");
  EXPECT_EQ(Best(devices, {}, "10.0.0.1"), "a");
  EXPECT_EQ(Best(devices, {.hca = "^a"}, "10.0.0.2"), "b");
}

TEST(OpenBestPort, SaysWhatIsThere) {
  EXPECT_THAT(Best({}, {}, ""), HasSubstr("no RDMA device here"));
  const std::string seen =
      Best({Device("a", "10.0.0.1", IBV_PORT_DOWN), Device("b", "10.0.0.2", IBV_PORT_INIT)}, {.hca = "a,b"}, "");
  EXPECT_THAT(seen, HasSubstr("a:1 is down"));
  EXPECT_THAT(seen, HasSubstr("b:1 is initialising (InfiniBand: does a subnet manager run?)"));
  EXPECT_THAT(Best({Device("a", "10.0.0.1")}, {.hca = "mlx5"}, ""), HasSubstr("a:1 is not among \"mlx5\""));
}

TEST(PciDistance, CountsBridges) {
  const std::string root = "/sys/devices/pci0000:00/0000:00:01.0";
  EXPECT_EQ(
      DistanceOf(root + "/0000:01:00.0/0000:02:00.0/0000:03:00.0", root + "/0000:01:00.0/0000:02:01.0/0000:04:00.0"),
      PciDistance::kPix);
  EXPECT_EQ(DistanceOf(root + "/0000:01:00.0/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0",
                       root + "/0000:01:00.0/0000:02:01.0/0000:06:00.0"),
            PciDistance::kPxb);
  EXPECT_EQ(DistanceOf(root + "/0000:01:00.0", "/sys/devices/pci0000:00/0000:00:02.0/0000:09:00.0"), PciDistance::kPhb);
  EXPECT_EQ(DistanceOf(root + "/0000:01:00.0", "/sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0"), PciDistance::kSys);
}

TEST(Settings, RangesAreChecked) {
  EXPECT_TRUE(CheckVerbsSettings({}).ok());
  EXPECT_THAT(CheckVerbsSettings({.timeout = 0}).message(), HasSubstr("timeout is 0; expected 1 to 31"));
  EXPECT_THAT(CheckVerbsSettings({.qps_per_connection = 17}).message(), HasSubstr("expected 1 to 16"));
  EXPECT_THAT(CheckVerbsSettings({.gpudirect_level = "NEAR"}).message(),
              HasSubstr("expected LOC, PIX, PXB, PHB or SYS"));
}

}  // namespace
}  // namespace hp

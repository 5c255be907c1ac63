#include "commands/choose_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hp {
namespace {

using ::testing::ElementsAre;

/// A process on host `id` that listens on all of its addresses, each with the bits of its network behind a slash.
NodeRecord OnHost(uint64_t id, const std::vector<std::string>& addresses) {
  NodeRecord record;
  record.set_host_id(id);
  record.set_host_name("host" + std::to_string(id));
  record.set_listen("0.0.0.0");
  record.set_port(5000);
  for (const std::string& address : addresses) {
    const size_t slash = address.find('/');
    record.add_address(address.substr(0, slash));
    record.add_prefix_length(slash == std::string::npos ? 0 : std::stoi(address.substr(slash + 1)));
  }
  return record;
}

TEST(ChooseAddressesTest, InTheNetworkThatAllAreIn) {
  // Each reaches the rendezvous by a network of its own.
  std::vector<NodeRecord> due = {OnHost(1, {"10.1.0.2/24", "192.168.5.1/16"}),
                                 OnHost(2, {"10.2.0.2/24", "172.16.0.2/12", "192.168.77.2/16"}),
                                 OnHost(3, {"192.168.5.3/16", "10.3.0.2/24"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("192.168.5.1", "192.168.77.2", "192.168.5.3"));
  std::reverse(due.begin(), due.end());
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("192.168.5.3", "192.168.77.2", "192.168.5.1"));
}

TEST(ChooseAddressesTest, OfSeveralNetworksTheOneInFront) {
  std::vector<NodeRecord> due = {OnHost(1, {"10.0.0.1/24", "10.9.0.1/24"}), OnHost(2, {"10.9.0.2/24", "10.0.0.2/24"}),
                                 OnHost(3, {"10.9.0.3/24", "10.0.0.3/24"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.9.0.1", "10.9.0.2", "10.9.0.3"));
  due.pop_back();  // now both are equally far in front
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.0.0.1", "10.0.0.2"));
  std::swap(due[0], due[1]);
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.0.0.2", "10.0.0.1")) << "whatever their order";
}

TEST(ChooseAddressesTest, ANetworkThatEachHostHasForItselfIsNone) {
  // Docker's bridge has this address on every host.
  std::vector<NodeRecord> due = {OnHost(1, {"172.17.0.1/16", "10.0.0.1/24"}),
                                 OnHost(2, {"172.17.0.1/16", "10.0.0.2/24"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.0.0.1", "10.0.0.2"));
  for (NodeRecord& record : due) record.set_host_id(1);
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("172.17.0.1", "172.17.0.1")) << "two nodes of one host";
}

TEST(ChooseAddressesTest, ALinkLocalNetworkIsNone) {
  // As interfaces without a router or a DHCP server give themselves.
  std::vector<NodeRecord> due = {OnHost(1, {"10.1.0.1/24", "169.254.7.1/16"}),
                                 OnHost(2, {"10.2.0.2/24", "169.254.9.2/16"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.1.0.1", "10.2.0.2"));
  for (NodeRecord& record : due) record.mutable_address()->SwapElements(0, 1);
  for (NodeRecord& record : due) record.mutable_prefix_length()->SwapElements(0, 1);
  for (NodeRecord& record : due) record.clear_listen();  // --interface
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("169.254.7.1", "169.254.9.2"));
}

TEST(ChooseAddressesTest, WhereNoNetworkHasAllRoutersJoinThem) {
  std::vector<NodeRecord> due = {OnHost(1, {"10.1.0.1/24", "10.5.0.1/24"}), OnHost(2, {"10.2.0.2/24", "10.5.0.2/24"}),
                                 OnHost(3, {"10.3.0.3/24"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.1.0.1", "10.2.0.2", "10.3.0.3"));
  due[2] = OnHost(3, {"fd00::3/64", "10.3.0.3/24"});
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.1.0.1", "10.2.0.2", "10.3.0.3"));
  due[2] = OnHost(3, {"node.example.com"});  // what --address says
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.1.0.1", "10.2.0.2", "node.example.com"));
  due[2] = OnHost(3, {"10.5.0.3"});  // its network is not said, but lies in that of the others
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.5.0.1", "10.5.0.2", "10.5.0.3"));
}

TEST(ChooseAddressesTest, SaysWhichNetworkAndHowToChooseAnother) {
  std::vector<NodeRecord> due = {OnHost(1, {"10.0.0.1/24"}), OnHost(2, {"10.0.0.2/24"})};
  EXPECT_EQ(ChooseAddresses(due)->why, "in 10.0.0.0/24, a network that all are in") << "nothing to choose from";
  const std::string otherwise = " (--interface=NETWORK or --address=ADDRESS of each node chooses otherwise)";
  due = {OnHost(1, {"10.0.0.1/24", "10.9.0.1/24"}), OnHost(2, {"10.0.0.2/24", "10.9.0.2/24"})};
  EXPECT_EQ(ChooseAddresses(due)->why,
            "in 10.0.0.0/24, a network that all are in, as they are in 10.9.0.0/24" + otherwise);
  // Racks whose networks routers join perhaps, and one network for the management of all hosts.
  due = {OnHost(1, {"10.1.0.1/24", "10.9.0.1/24"}), OnHost(2, {"10.2.0.2/24", "10.9.0.2/24"})};
  EXPECT_EQ(ChooseAddresses(due)->why,
            "in 10.9.0.0/24, a network that all are in; host1 has 10.1.0.1 in front, and whether routers lead there "
            "from all others is unknown" +
                otherwise);
  // --interface=10.0.0.0/14 on each, which listens on that address alone.
  for (NodeRecord& record : due) record.clear_listen();
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.1.0.1", "10.2.0.2"));
  EXPECT_EQ(ChooseAddresses(due)->why,
            "the first of IPv4 of each, since no network is known that all are in" + otherwise);
}

TEST(ChooseAddressesTest, OfIpv6) {
  const std::vector<NodeRecord> due = {OnHost(1, {"fd00:1::1/64", "fd00:9::1/64"}),
                                       OnHost(2, {"fd00:2::2/64", "fd00:9::2/64"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("fd00:9::1", "fd00:9::2"));
}

TEST(ChooseAddressesTest, OnlyWhatIsListenedOnCounts) {
  std::vector<NodeRecord> due = {OnHost(1, {"10.1.0.1/24", "10.5.0.1/24"}), OnHost(2, {"10.2.0.2/24", "10.5.0.2/24"})};
  due[1].clear_listen();
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.1.0.1", "10.2.0.2"));
}

TEST(ChooseAddressesTest, LoopbackOnlyWhereAllAreOnOneHost) {
  std::vector<NodeRecord> due = {OnHost(1, {"127.0.0.1/8", "10.0.0.1/24"}), OnHost(1, {"127.0.0.1/8", "10.0.0.1/24"})};
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("127.0.0.1", "127.0.0.1"));
  due.push_back(OnHost(2, {"10.0.0.2/24", "127.0.0.1/8"}));
  EXPECT_THAT(ChooseAddresses(due)->addresses, ElementsAre("10.0.0.1", "10.0.0.1", "10.0.0.2"));
  due = {OnHost(1, {"127.0.0.1/8"}), OnHost(2, {"127.0.0.1/8"})};
  EXPECT_EQ(ChooseAddresses(due).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hp

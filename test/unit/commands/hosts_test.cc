#include "base/host.h"
#include "commands/own_node.h"
#include "test/support/small_job.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hp {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostsTest, LoopbackAndOwnAddressesAreThisHost) {
  EXPECT_THAT(OwnAddresses(), Contains("127.0.0.1"));
  EXPECT_TRUE(IsThisHost("localhost"));
  EXPECT_TRUE(IsThisHost("127.0.0.7"));
  EXPECT_FALSE(IsThisHost("192.0.2.1"));  // reserved for documentation
  EXPECT_THAT(CanonicalAddresses("192.0.2.1"), ElementsAre("192.0.2.1"));
  for (const std::string& address : OwnAddresses()) EXPECT_TRUE(IsThisHost(address)) << address;
}

TEST(HostsTest, TheAddressTowardAHostIsOneOfThisHost) {
  EXPECT_EQ(OwnAddressToward("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(OwnAddressToward("no such host"), "");
}

/// A listening socket on a port of the system's choice.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    socklen_t length = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(socket_); }
  int port() const { return port_; }

 private:
  const int socket_;
  int port_ = 0;
};

TEST(PortHolderTest, NamesTheProcessThatListens) {
  int port = 0;
  {
    const Listener listener;
    port = listener.port();
    const auto holder = FindPortHolder(port);
    ASSERT_TRUE(holder.has_value());
    EXPECT_EQ(holder->pid, getpid());
    EXPECT_EQ(holder->program, std::string("unit_commands").substr(0, 15));
  }
  EXPECT_FALSE(FindPortHolder(port).has_value());
}

class OwnNodeTest : public ::testing::Test {
 protected:
  static bool OnB(const std::string& host) { return host == "b"; }
  const RoutingTable table_ =
      MakeTable(std::string(kTable) + "node { name: 'conv2' stage: 0 index: 2 host: 'b' port: 29502 }");
};

TEST_F(OwnNodeTest, ByRoleAndHostInTheOrderOfTheTable) {
  EXPECT_THAT(*FindOwnNodes(table_, "conv", "", &OnB), ElementsAre(1, 4));
  EXPECT_THAT(*FindOwnNodes(table_, "fc", "", &OnB), ElementsAre(3));
}

TEST_F(OwnNodeTest, NameAlwaysWins) {
  EXPECT_THAT(*FindOwnNodes(table_, "", "fc1", &OnB), ElementsAre(2));
  EXPECT_THAT(*FindOwnNodes(table_, "fc", "fc1", &OnB), ElementsAre(2));
  EXPECT_EQ(FindOwnNodes(table_, "conv", "fc1", &OnB).status().message(),
            "/job/table.prototxt: node \"fc1\" has the role fc; --role says conv");
  EXPECT_EQ(FindOwnNodes(table_, "conv", "fc9", &OnB).status().code(), StatusCode::kNotFound);
}

TEST_F(OwnNodeTest, NoneHereNamesTheEntries) {
  const Status status = FindOwnNodes(table_, "conv", "", [](const std::string&) { return false; }).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("the table has conv0 on a:29500, conv1 on b:29500, conv2 on b:29502"));
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1"));
  EXPECT_EQ(FindOwnNodes(table_, "gpu", "", &OnB).status().message(), "--role is \"gpu\"; expected conv, fc or ps");
  EXPECT_EQ(FindOwnNodes(table_, "", "", &OnB).status().code(), StatusCode::kInvalidArgument);
}

Status Taken() { return FailedPrecondition("address in use"); }

TEST_F(OwnNodeTest, TakesTheFirstFreePortAndPassesOverOtherNodes) {
  const auto listen = [](const NodeInfo& node) { return node.port == 29502 ? OkStatus() : Taken(); };
  const auto ours = [](int) { return std::optional<PortHolder>({17, "hpnode"}); };
  EXPECT_EQ(*TakeOwnNode(table_, {1, 4}, "hpnode", listen, ours), 4);
}

TEST_F(OwnNodeTest, NoneLeftNamesEntriesAndHolders) {
  const auto listen = [](const NodeInfo&) { return Taken(); };
  const auto ours = [](int) { return std::optional<PortHolder>({17, "hpnode"}); };
  EXPECT_EQ(TakeOwnNode(table_, {1, 4}, "hpnode", listen, ours).status().message(),
            "/job/table.prototxt: all nodes of this host are already running or their ports are taken:\n"
            "  node \"conv1\", port 29500: held by hpnode (process 17)\n"
            "  node \"conv2\", port 29502: held by hpnode (process 17)\n"
            "end these processes, or use other ports (hproute --port=P; free ones: hpnode --port_folder, hplaunch "
            "--free_ports)");
}

TEST_F(OwnNodeTest, PortHeldBySomethingElseIsAnError) {
  const auto listen = [](const NodeInfo& node) { return node.port == 29502 ? OkStatus() : Taken(); };
  const auto other = [](int) { return std::optional<PortHolder>({18, "nginx"}); };
  const Status status = TakeOwnNode(table_, {1, 4}, "hpnode", listen, other).status();
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_EQ(status.message(),
            "/job/table.prototxt: port 29500 of node \"conv1\" is held by nginx (process 18); expected it to be free "
            "or held by "
            "hpnode");
}

}  // namespace
}  // namespace hp

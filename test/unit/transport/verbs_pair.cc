#include "test/unit/transport/verbs_pair.h"

#include "transport/tcp/tcp_transport.h"

#include <glog/logging.h>
#include <gmock/gmock.h>

namespace hp {

VerbsPair::VerbsPair(Options options) : options_(std::move(options)), fabric_({.delayed = options_.delayed}) {
  nodes_.resize(static_cast<size_t>(2 + options_.others));
  for (Rank rank = 0; rank < std::ssize(nodes_); ++rank) {
    hosts_.push_back(std::make_unique<FakeVerbs>(
        &fabric_, rank < 2 ? options_.devices[rank] : std::vector<FakeVerbs::Device>{FakeVerbs::Roce()}));
    auto listener = TcpListener::Bind("127.0.0.1", 0);
    CHECK(listener.ok()) << listener.status();
    peers_.push_back({rank, "node" + std::to_string(rank), "127.0.0.1", (*listener)->port()});
    listeners_.push_back(*std::move(listener));
  }
}

VerbsPair::~VerbsPair() {
  for (auto& node : nodes_) node.reset();
  for (auto& host : hosts_) host.reset();  // they tell the fabric what is left over
  EXPECT_THAT(fabric_.faults(), testing::IsEmpty());
  EXPECT_EQ(fabric_.counts().overruns, 0);
}

Status VerbsPair::Make(Rank rank) {
  VerbsOptions options;
  options.tcp_link = MakeTcpLink;
  options.connect.rank = rank;
  options.connect.peers = peers_;
  options.connect.bind_host = "127.0.0.1";
  options.connect.handshake_deadline_ms = options_.handshake_deadline_ms;
  options.settings = options_.settings;
  options.fall_back = options_.fall_back;
  options.verbs = hosts_[rank].get();
  options.sys_root = options_.sys_root;
  auto transport = MakeVerbsTransport(options, std::move(listeners_[rank]));
  if (!transport.ok()) return transport.status();
  nodes_[rank] = std::make_unique<TestNode>(*std::move(transport), "job", rank);
  return OkStatus();
}

void VerbsPair::Connect() {
  for (Rank rank = 0; rank < std::ssize(nodes_); ++rank) ASSERT_TRUE(Make(rank).ok());
  for (const auto& node : nodes_) node->Start();
  for (const auto& node : nodes_) node->Await(Event::kConnected, nodes_.size() - 1);
}

RemoteGrant VerbsPair::Grant(Rank to, Rank from, const PlaceTag& tag, std::span<std::byte> place) {
  EXPECT_TRUE(node(to)->Grant(from, tag, place).ok());
  return node(from).Get(Event::kGranted, tag).grant;
}

void VerbsPair::Transfer(Rank from, Rank to, const PlaceTag& tag, std::span<const std::byte> source,
                         std::span<std::byte> place) {
  const RemoteGrant grant = Grant(to, from, tag, place);
  EXPECT_TRUE(node(from)->Write(to, tag, grant, source).ok());
  EXPECT_TRUE(node(to).Get(Event::kGrantEnded, tag).status.ok());
  EXPECT_TRUE(node(from).Get(Event::kWriteEnded, tag).status.ok());
}

std::vector<ibv_qp_attr> ModifiedTo(FakeVerbs& host, ibv_qp_state state) {
  std::vector<ibv_qp_attr> found = host.modifications();
  std::erase_if(found, [state](const ibv_qp_attr& attributes) { return attributes.qp_state != state; });
  return found;
}

}  // namespace hp

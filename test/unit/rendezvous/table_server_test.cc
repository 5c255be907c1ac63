#include "rendezvous/table_server.h"

#include "base/thread.h"
#include "test/support/log_lines.h"
#include "transport/tcp/tcp_transport.h"

#include "rendezvous/attendance.h"
#include "rendezvous/folder_store.h"
#include "rendezvous/server_link.h"
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace hp {
namespace {

StatusOr<TableRecord> PlanInOrder(const std::vector<NodeRecord>& due) {
  TableRecord table;
  for (const NodeRecord& record : due) {
    const std::string name = "node" + std::to_string(table.seat_size());
    table.mutable_config()->add_node()->set_name(name);
    table.add_seat()->set_nonce(record.nonce());
    table.mutable_seat(table.seat_size() - 1)->set_node(name);
  }
  return table;
}

JobKeys SomeKeys(int key) {
  JobKeys keys;
  keys.node = true;
  keys.rendezvous[0] = static_cast<std::byte>(key);
  return keys;
}

/// A server on loopback whose tables lie in a folder.
class TableServerTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/hpnode-server-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    StopServer();
    std::filesystem::remove_all(folder_);
  }

  void StartServer(std::optional<JobKeys> keys = {}, TablePlanner planner = &PlanInOrder) {
    store_ = *FolderStore::Open(folder_, NewNonce());
    auto listener = *TcpListener::Bind("127.0.0.1", port_);
    port_ = listener->port();
    ConnectOptions options;
    options.keys = RendezvousProof(keys);
    options.spin_ns = 0;
    transport_ = MakeTcpTransport(options, std::move(listener));
    TableServerOptions of_server{.run = "run", .keys = keys, .wanted = {.any = 2}, .planner = std::move(planner)};
    server_ = std::make_unique<TableServer>(of_server, store_.get(), transport_.get());
    thread_ = Thread("server", [this] { EXPECT_TRUE(server_->Serve().ok()); });
  }
  void StopServer() {
    if (server_) server_->Stop();
    thread_.Join();
    server_.reset();
    transport_.reset();
  }

  std::unique_ptr<ServerLink> Link(std::optional<JobKeys> keys = {}) {
    return std::make_unique<ServerLink>("tcp://127.0.0.1", keys, [port = port_, keys] {
      ConnectOptions options;
      options.client = true;
      options.peers = {{0, "hpserver", "127.0.0.1", port}};
      options.connect_deadline_ms = 500;
      options.keys = RendezvousProof(keys);
      options.spin_ns = 0;
      return MakeTcpTransport(options, nullptr);
    });
  }
  static NodeRecord Newcomer() {
    NodeRecord record;
    record.set_nonce(NewNonce());
    record.add_address("127.0.0.1");
    record.set_port(5000);
    return record;
  }
  /// Both ask until they are told something else than to wait.
  std::pair<RendezvousAnswer, RendezvousAnswer> AskBoth(JobRendezvous* a, const NodeRecord& record_a, JobRendezvous* b,
                                                        const NodeRecord& record_b) {
    std::pair<RendezvousAnswer, RendezvousAnswer> answers;
    Thread other("other", [&] { answers.second = *AwaitTable(b, record_b, 60'000); });
    answers.first = *AwaitTable(a, record_a, 60'000);
    return answers;
  }

  std::string folder_;
  int port_ = 0;
  std::unique_ptr<FolderStore> store_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<TableServer> server_;
  Thread thread_;
};

TEST_F(TableServerTest, HandsOneTableToAllAndKeepsItWhenStartedAgain) {
  StartServer(SomeKeys(1));
  const auto a = Link(SomeKeys(1)), b = Link(SomeKeys(1));
  NodeRecord record_a = Newcomer(), record_b = Newcomer();
  const auto [of_a, of_b] = AskBoth(a.get(), record_a, b.get(), record_b);
  ASSERT_EQ(of_a.kind(), RendezvousAnswer::TABLE);
  EXPECT_EQ(of_a.table().SerializeAsString(), of_b.table().SerializeAsString());
  StopServer();
  EXPECT_EQ(a->Tell(record_a).status().code(), StatusCode::kUnavailable);
  StartServer(SomeKeys(1));
  EXPECT_EQ(AwaitTable(a.get(), record_a, 60'000)->table().SerializeAsString(), of_a.table().SerializeAsString());
}

TEST_F(TableServerTest, TheNextIncarnationIsForThoseThatAskAgain) {
  StartServer();
  NodeRecord record_a = Newcomer(), record_b = Newcomer();
  {
    auto a = Link(), b = Link();
    AskBoth(a.get(), record_a, b.get(), record_b);
    Attendance at_a(std::move(a), record_a), at_b(std::move(b), record_b);
    test::LogLines log;
    at_a.BeginEnd(4);
    at_a.End(1);  // the first word counts, and is waited for
    EXPECT_EQ(log.With("ended with status 4").size(), 1u);
    at_b.End(0);
    EXPECT_TRUE(log.With("ended with status 1").empty());
  }
  const auto c = Link(), d = Link();
  EXPECT_EQ(AskBoth(c.get(), Newcomer(), d.get(), Newcomer()).first.table().incarnation(), 2);
}

TEST_F(TableServerTest, WhoHasAnotherTokenHearsNothing) {
  StartServer(SomeKeys(1));
  const auto other = Link(SomeKeys(2))->Tell(Newcomer());
  EXPECT_NE(other.status().message().find("--token_file"), std::string::npos) << other.status().message();
  EXPECT_FALSE(Link()->Tell(Newcomer()).ok());
  EXPECT_TRUE(Link(SomeKeys(1))->Tell(Newcomer()).ok());
}

TEST_F(TableServerTest, RefusesOtherRunsAndOtherPlanners) {
  StartServer();
  NodeRecord other = Newcomer();
  other.set_run_id("another");
  EXPECT_EQ(Link()->Tell(other)->kind(), RendezvousAnswer::REFUSED);
  NodeRecord planner = Newcomer();
  planner.set_request("--conv=2");
  EXPECT_EQ(Link()->Tell(planner)->kind(), RendezvousAnswer::REFUSED);
}

TEST_F(TableServerTest, SaysWhyItCannotPlan) {
  StartServer({}, [](const std::vector<NodeRecord>&) -> StatusOr<TableRecord> {
    return InvalidArgument("the net has no layers");
  });
  const auto a = Link(), b = Link();
  const auto answers = AskBoth(a.get(), Newcomer(), b.get(), Newcomer());
  EXPECT_EQ(answers.first.kind(), RendezvousAnswer::REFUSED);
  EXPECT_NE(answers.second.text().find("the net has no layers"), std::string::npos);
}

TEST_F(TableServerTest, ARecordOutOfRangeCostsItsConnectionOnly) {
  StartServer();
  NodeRecord wrong = Newcomer();
  wrong.set_port(0);
  EXPECT_EQ(Link()->Tell(wrong).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Link()->Tell(Newcomer())->kind(), RendezvousAnswer::WAIT);
}

}  // namespace
}  // namespace hp

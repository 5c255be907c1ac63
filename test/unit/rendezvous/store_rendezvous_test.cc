#include "rendezvous/store_rendezvous.h"

#include "test/unit/rendezvous/fake_files.h"

#include "rendezvous/folder_store.h"
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <utility>

namespace hp {
namespace {

/// One process that asks: its view of the folder, and its record.
struct Asker {
  FakeFiles files;
  NodeRecord record;
  std::unique_ptr<StoreRendezvous> rendezvous;
  explicit Asker(FakeServer* server) : files(server) {}
  RendezvousAnswer Tell() {
    auto answer = rendezvous->Tell(record);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer : RendezvousAnswer();
  }
};

class StoreRendezvousTest : public testing::Test {
 protected:
  Asker& Add(bool plans = true, std::optional<JobKeys> keys = {}) {
    Asker& asker = askers_.emplace_back(&server_);
    asker.record.set_nonce(NewNonce());
    asker.record.add_address("10.0.0.1");
    asker.record.set_port(static_cast<int>(5000 + askers_.size()));
    StoreRendezvousOptions options{.run = "run", .keys = keys, .wanted = {}, .planner = nullptr, .request = ""};
    options.clock = &clock_;
    if (plans) {
      options.wanted = NodesWanted{.any = 2};
      options.request = "--conv=2";
      asker.record.set_request("--conv=2");
      options.planner = [this](const std::vector<NodeRecord>& due) { return PlanOfTest(due); };
    }
    asker.rendezvous = std::make_unique<StoreRendezvous>(
        *FolderStore::Open("/shared/run", asker.record.nonce(), &asker.files, &clock_), options);
    return asker;
  }

  StatusOr<TableRecord> PlanOfTest(const std::vector<NodeRecord>& due) {
    ++plans_;
    if (before_plan_) std::exchange(before_plan_, nullptr)();
    TableRecord table;
    for (const NodeRecord& record : due) {
      const std::string name = "node" + std::to_string(table.seat_size());
      table.mutable_config()->add_node()->set_name(name);
      SeatRecord* seat = table.add_seat();
      seat->set_nonce(record.nonce());
      seat->set_node(name);
    }
    return table;
  }

  FakeServer server_;
  FakeClock clock_;
  std::list<Asker> askers_;
  int plans_ = 0;
  std::function<void()> before_plan_;  // within the next plan
};

TEST_F(StoreRendezvousTest, TwoThatRaceGetOneTable) {
  Asker &a = Add(), &b = Add();
  a.files.lose_links = b.files.lose_links = true;
  a.files.lose_renames = b.files.lose_renames = true;
  a.files.cache_misses = b.files.cache_misses = true;
  for (int round = 0; round < 3; ++round) {
    a.Tell();
    b.Tell();
  }
  const RendezvousAnswer of_a = a.Tell(), of_b = b.Tell();
  ASSERT_EQ(of_a.kind(), RendezvousAnswer::TABLE);
  EXPECT_EQ(of_a.table().SerializeAsString(), of_b.table().SerializeAsString());
  EXPECT_EQ(of_a.table().incarnation(), 1);
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(a.Tell().table().SerializeAsString(), of_a.table().SerializeAsString()) << "asked twice";
}

// Both plan at once, as when the lease was lost: the first table counts.
TEST_F(StoreRendezvousTest, ALostLeaseMakesNoSecondTable) {
  Asker &a = Add(), &b = Add();
  a.Tell();
  b.Tell();
  a.Tell();
  RendezvousAnswer of_a;
  before_plan_ = [&] {
    std::erase_if(server_.files, [](const auto& file) { return file.first.find("lease") != std::string::npos; });
    of_a = a.Tell();
  };
  const RendezvousAnswer of_b = b.Tell();
  EXPECT_EQ(plans_, 2);
  ASSERT_EQ(of_b.kind(), RendezvousAnswer::TABLE);
  EXPECT_EQ(of_b.table().writer(), a.record.nonce());
  EXPECT_EQ(of_a.table().SerializeAsString(), of_b.table().SerializeAsString());
}

TEST_F(StoreRendezvousTest, TheLeaseIsRenewedWhileThePlanTakesLong) {
  Asker &a = Add(), &b = Add();
  a.Tell();
  b.Tell();
  a.Tell();
  std::promise<void> renewed;
  b.files.on_rename = [&](const std::string& path) {
    if (path == "/shared/run/lease.1.1") renewed.set_value();
    if (path == "/shared/run/lease.1.1") b.files.on_rename = nullptr;
  };
  before_plan_ = [&] { EXPECT_EQ(renewed.get_future().wait_for(std::chrono::minutes(5)), std::future_status::ready); };
  EXPECT_EQ(b.Tell().kind(), RendezvousAnswer::TABLE);
}

TEST_F(StoreRendezvousTest, OneThatDoesNotPlanWaitsForOneThatDoes) {
  Asker &a = Add(false), &b = Add(false);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(a.Tell().kind(), RendezvousAnswer::WAIT);
    EXPECT_NE(b.Tell().text().find("--solver"), std::string::npos);
  }
  Asker& c = Add();
  for (int round = 0; round < 3; ++round) {
    for (Asker* asker : {&a, &b, &c}) asker->Tell();
  }
  int tables = 0;
  for (Asker* asker : {&a, &b, &c}) tables += asker->Tell().kind() == RendezvousAnswer::TABLE;
  EXPECT_EQ(tables, 2);
}

TEST_F(StoreRendezvousTest, EntriesOfAnEarlierRunHarmNothing) {
  Asker &old_a = Add(), &old_b = Add();
  for (int round = 0; round < 3; ++round) {
    old_a.Tell();
    old_b.Tell();
  }
  ASSERT_EQ(old_a.Tell().table().incarnation(), 1);
  // Both are killed, a third one was waiting, and its record is of a token that nobody knows.
  server_.files["/shared/run/node." + NewNonce()] = std::make_shared<std::string>("rubbish");
  Asker &a = Add(), &b = Add();
  for (int second = 0; second < 12; ++second) {
    a.Tell();
    b.Tell();
    clock_.Advance(kNsPerSecond);
  }
  const RendezvousAnswer answer = a.Tell();
  ASSERT_EQ(answer.kind(), RendezvousAnswer::TABLE);
  EXPECT_EQ(answer.table().incarnation(), 2);
  for (const SeatRecord& seat : answer.table().seat()) {
    EXPECT_TRUE(seat.nonce() == a.record.nonce() || seat.nonce() == b.record.nonce());
  }
  EXPECT_FALSE(server_.files.contains("/shared/run/node." + old_a.record.nonce())) << "it is not cleared away";
}

TEST_F(StoreRendezvousTest, APlantedTableIsForAllAndStays) {
  FakeFiles files(&server_);
  const auto store = *FolderStore::Open("/shared/run", NewNonce(), &files, &clock_);
  RoutingTableConfig config;
  config.add_node()->set_name("only");
  EXPECT_TRUE(PutTable(store.get(), "run", {}, config).ok());
  EXPECT_EQ(PutTable(store.get(), "run", {}, config).code(), StatusCode::kFailedPrecondition);
  for (int start = 0; start < 2; ++start) EXPECT_EQ(Add(false).Tell().table().config().node(0).name(), "only");
}

TEST_F(StoreRendezvousTest, ATableOfAnotherTokenIsNoTable) {
  FakeFiles files(&server_);
  const auto store = *FolderStore::Open("/shared/run", NewNonce(), &files, &clock_);
  RoutingTableConfig config;
  config.add_node()->set_name("only");
  EXPECT_TRUE(PutTable(store.get(), "run", {}, config).ok());
  JobKeys keys;
  keys.rendezvous[0] = std::byte{1};
  Asker& asker = Add(false, keys);
  const auto answer = asker.rendezvous->Tell(asker.record);
  EXPECT_EQ(answer.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(answer.status().message().find("--token_file"), std::string::npos);
}

}  // namespace
}  // namespace hp

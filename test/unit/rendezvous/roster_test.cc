#include "rendezvous/roster.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

std::string NonceOf(int number) { return std::string(31, '0') + static_cast<char>('0' + number); }

NodeRecord Record(int number, const std::string& role = "") {
  NodeRecord record;
  record.set_nonce(NonceOf(number));
  record.set_host_name("host");
  record.add_address("10.0.0." + std::to_string(number));
  record.set_port(5000);
  record.set_role(role);
  return record;
}

class RosterTest : public testing::Test {
 protected:
  explicit RosterTest() { roster_ = std::make_unique<Roster>(NodesWanted{.conv = 1, .fc = 1}, "", &clock_); }

  void Say(NodeRecord record, NodeRecord::State state = NodeRecord::WAITING) {
    record.set_state(state);
    record.set_beat(++beat_);
    record.set_incarnation(state == NodeRecord::WAITING ? 0 : 1);
    roster_->Hear(record);
  }
  void Wait(const NodeRecord& record) {
    Say(record);
    Say(record);
  }
  /// The table of the nodes that are due.
  std::vector<std::string> HandOut() {
    const std::vector<NodeRecord> due = roster_->DueNodes();
    std::vector<std::string> nonces;
    if (due.empty()) return nonces;
    TableRecord table;
    table.set_incarnation(roster_->table() ? roster_->table()->incarnation() + 1 : 1);
    for (const NodeRecord& record : roster_->WaitingBeside(due)) table.add_unneeded(record.nonce());
    for (const NodeRecord& record : due) {
      SeatRecord* seat = table.add_seat();
      seat->set_nonce(record.nonce());
      seat->set_node("node" + std::to_string(nonces.size()));
      nonces.push_back(record.nonce());
    }
    roster_->SetTable(table);
    return nonces;
  }
  RendezvousAnswer Answer(int number) { return roster_->AnswerTo(NonceOf(number)); }

  FakeClock clock_;
  std::unique_ptr<Roster> roster_;
  uint64_t beat_ = 0;
};

TEST_F(RosterTest, ATableIsDueWhenEnoughOfEachRoleWait) {
  Wait(Record(1, "fc"));
  Wait(Record(2, "fc"));
  EXPECT_TRUE(roster_->DueNodes().empty());
  EXPECT_EQ(Answer(1).kind(), RendezvousAnswer::WAIT);
  Wait(Record(3));
  EXPECT_EQ(HandOut(), (std::vector<std::string>{NonceOf(3), NonceOf(1)})) << "conv first; any role is conv here";
  EXPECT_EQ(Answer(1).kind(), RendezvousAnswer::TABLE);
  EXPECT_EQ(Answer(3).kind(), RendezvousAnswer::TABLE);
  EXPECT_EQ(Answer(2).kind(), RendezvousAnswer::NOT_NEEDED);
}

TEST_F(RosterTest, AskingTwiceGetsTheSameTable) {
  Wait(Record(1));
  Wait(Record(2));
  HandOut();
  const std::string first = Answer(1).SerializeAsString();
  Wait(Record(1));
  EXPECT_TRUE(HandOut().empty());
  EXPECT_EQ(Answer(1).SerializeAsString(), first);
}

TEST_F(RosterTest, ALeftoverOfAnEarlierRunIsNobody) {
  Say(Record(1));  // said once, and never again: its process is gone
  Wait(Record(2));
  EXPECT_TRUE(roster_->DueNodes().empty());
  Wait(Record(3));
  EXPECT_EQ(HandOut(), (std::vector<std::string>{NonceOf(2), NonceOf(3)}));
}

TEST_F(RosterTest, WhoDiedWhileItWaitedIsNotCounted) {
  Wait(Record(1));
  clock_.Advance(Roster::kSilenceNs);
  Wait(Record(2));
  EXPECT_TRUE(roster_->DueNodes().empty());
  Wait(Record(3));
  roster_->Leave(NonceOf(3));
  EXPECT_TRUE(roster_->DueNodes().empty());
  Wait(Record(3));  // its connection broke, and it comes again
  EXPECT_EQ(roster_->DueNodes().size(), 2U);
}

TEST_F(RosterTest, TheNextIncarnationWaitsForTheEndOfTheLast) {
  for (int number : {1, 2}) Wait(Record(number));
  HandOut();
  for (int number : {1, 2}) Say(Record(number), NodeRecord::RUNNING);
  for (int number : {3, 4}) Wait(Record(number));
  EXPECT_TRUE(roster_->DueNodes().empty());
  EXPECT_NE(Answer(3).text().find("node0, node1"), std::string::npos) << Answer(3).text();
  Say(Record(1), NodeRecord::ENDED);
  EXPECT_TRUE(roster_->DueNodes().empty());
  roster_->Leave(NonceOf(2));
  clock_.Advance(Roster::kGoneNs - 1);
  for (int number : {3, 4}) Say(Record(number));
  EXPECT_TRUE(roster_->DueNodes().empty()) << "the connection may come again";
  clock_.Advance(1);
  EXPECT_EQ(HandOut(), (std::vector<std::string>{NonceOf(3), NonceOf(4)}));
  EXPECT_EQ(roster_->table()->incarnation(), 2);
  // An old one that lives after all.
  Say(Record(2), NodeRecord::RUNNING);
  EXPECT_EQ(Answer(2).kind(), RendezvousAnswer::REFUSED);
}

TEST_F(RosterTest, SaysHowTheJobGoes) {
  EXPECT_EQ(roster_->Progress(), "");
  for (int number : {1, 2}) Wait(Record(number));
  HandOut();
  NodeRecord reporter = Record(2);
  reporter.set_iteration(70);
  Say(Record(1), NodeRecord::RUNNING);
  Say(reporter, NodeRecord::RUNNING);
  EXPECT_EQ(roster_->Progress(), "incarnation 1: 2 of 2 nodes live, iteration 70");
  Say(Record(1), NodeRecord::ENDED);
  EXPECT_EQ(roster_->Progress(), "incarnation 1: 1 of 2 nodes live, iteration 70");
}

TEST_F(RosterTest, SilentNodesAreDeadAfterTenSeconds) {
  for (int number : {1, 2}) Wait(Record(number));
  HandOut();
  for (int number : {1, 2}) Say(Record(number), NodeRecord::RUNNING);
  for (int second = 0; second < 10; ++second) {
    for (int number : {3, 4}) Wait(Record(number));
    EXPECT_TRUE(roster_->DueNodes().empty()) << second;
    clock_.Advance(kNsPerSecond);
  }
  EXPECT_EQ(roster_->DueNodes().size(), 2U);
}

// A server that was started again has heard nobody yet.
TEST_F(RosterTest, NodesOfATableThatWasReadLiveForAWhile) {
  for (int number : {1, 2}) Wait(Record(number));
  HandOut();
  const TableRecord table = *roster_->table();
  roster_ = std::make_unique<Roster>(NodesWanted{.conv = 1, .fc = 1}, "", &clock_);
  roster_->SetTable(table);
  for (int number : {3, 4}) Wait(Record(number));
  EXPECT_TRUE(roster_->DueNodes().empty());
  Say(Record(1), NodeRecord::RUNNING);
  EXPECT_EQ(Answer(1).kind(), RendezvousAnswer::TABLE);
  clock_.Advance(Roster::kSilenceNs);
  for (int number : {3, 4}) Wait(Record(number));
  EXPECT_EQ(roster_->DueNodes().size(), 2U);
}

TEST_F(RosterTest, ASecondRunOfTheSameIdIsRefused) {
  for (int number : {1, 2}) Wait(Record(number));
  HandOut();
  for (int second = 0; second <= 10; ++second) {
    for (int number : {1, 2}) Say(Record(number), NodeRecord::RUNNING);
    Wait(Record(3));
    EXPECT_EQ(Answer(3).kind(), second < 10 ? RendezvousAnswer::WAIT : RendezvousAnswer::REFUSED) << second;
    clock_.Advance(kNsPerSecond);
  }
  EXPECT_NE(Answer(3).text().find("--run_id"), std::string::npos);
}

TEST_F(RosterTest, OtherFlagsAreAnotherRun) {
  roster_ = std::make_unique<Roster>(NodesWanted{.conv = 1, .fc = 1}, "--conv=1", &clock_);
  NodeRecord other = Record(3);
  other.set_request("--conv=2");
  Wait(other);
  EXPECT_EQ(Answer(3).kind(), RendezvousAnswer::REFUSED);
  Wait(Record(1));
  EXPECT_TRUE(roster_->DueNodes().empty()) << "it counted one of the other run";
}

TEST_F(RosterTest, APlantedTableIsForWhoeverAsks) {
  TableRecord table;
  table.set_incarnation(0);
  roster_->SetTable(table);
  for (int number : {1, 2, 3}) Wait(Record(number));
  EXPECT_EQ(Answer(3).kind(), RendezvousAnswer::TABLE);
  EXPECT_TRUE(roster_->DueNodes().empty());
}

TEST_F(RosterTest, WhatIsOverIsForgotten) {
  for (int number : {1, 2}) Wait(Record(number));
  HandOut();
  Say(Record(5));
  EXPECT_TRUE(roster_->Forgettable().empty());
  clock_.Advance(Roster::kSilenceNs);
  EXPECT_EQ(roster_->Forgettable(), std::vector<std::string>{NonceOf(5)});
}

TEST_F(RosterTest, WhoIsLeftOutIsTold) {
  roster_ = std::make_unique<Roster>(NodesWanted{.conv = 1, .fc = 1, .exclude = {"10.0.0.2"}}, "", &clock_);
  Wait(Record(2));
  EXPECT_EQ(Answer(2).kind(), RendezvousAnswer::NOT_NEEDED);
  EXPECT_EQ(Answer(2).text(), "this host is left out (--exclude=10.0.0.2)");
  Wait(Record(1));
  EXPECT_TRUE(HandOut().empty());
  EXPECT_NE(Answer(1).text().find("1 ask, 1 conv"), std::string::npos) << Answer(1).text();
  Wait(Record(3));
  EXPECT_EQ(HandOut(), (std::vector<std::string>{NonceOf(1), NonceOf(3)}));
  EXPECT_EQ(roster_->table()->unneeded(0), NonceOf(2)) << "for those who do not know the flags";
  // Left out later: whoever has an entry keeps it.
  roster_ = std::make_unique<Roster>(NodesWanted{.conv = 1, .fc = 1, .exclude = {"host"}}, "", &clock_);
  TableRecord table;
  table.set_incarnation(1);
  table.add_seat()->set_nonce(NonceOf(1));
  roster_->SetTable(table);
  Say(Record(1), NodeRecord::RUNNING);
  EXPECT_EQ(Answer(1).kind(), RendezvousAnswer::TABLE);
}

TEST(ChooseNodesTest, TakesAnyWhereThePlanDecides) {
  EXPECT_TRUE(ChooseNodes({Record(1, "fc")}, {.any = 2}).empty());
  EXPECT_EQ(ChooseNodes({Record(2, "fc"), Record(1, "fc")}, {.any = 2})[0].nonce(), NonceOf(1));
}

}  // namespace
}  // namespace hp

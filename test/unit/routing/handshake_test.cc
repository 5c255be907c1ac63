#include "scheduler/control/handshake.h"

#include "base/format.h"
#include "proto/node_protocol.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class HandshakeTest : public ::testing::Test {
 protected:
  static JobFacts Facts(Rank rank) {
    JobFacts facts;
    facts.rank = rank;
    facts.net_hash = 0x11;
    facts.solver_hash = 0x22;
    facts.core_pools = {{0xC, 8}};
    facts.host_id = rank % 2 == 0 ? 0xA : 0xB;
    return facts;
  }
  std::unique_ptr<JobHandshake> Make(const JobFacts& facts) {
    JobHandshake::Callbacks callbacks;
    callbacks.on_fatal = [this](const Status& status) { fatal_.push_back(status); };
    callbacks.on_refused = [this](Rank rank, const Status& refused_us) { parted_.emplace_back(rank, refused_us.ok()); };
    return std::make_unique<JobHandshake>(table_, facts, callbacks);
  }
  /// What node 0 answers to a node with these facts.
  std::string Refusal(const JobFacts& other) {
    const auto here = Make(Facts(0));
    return here->Accept(Make(other)->Hello()).status().message();
  }

  const RoutingTable table_ = MakeTable(kTable);
  std::vector<Status> fatal_;
  std::vector<std::pair<Rank, bool>> parted_;
};

TEST_F(HandshakeTest, NodesOfOneJobAcceptEachOther) {
  const auto a = Make(Facts(0)), b = Make(Facts(2));
  EXPECT_EQ(*a->Accept(b->Hello()), 2);
  EXPECT_EQ(*b->Accept(a->Hello()), 0);
  EXPECT_FALSE(a->complete());
  for (Rank rank : {1, 3}) EXPECT_TRUE(a->Accept(Make(Facts(rank))->Hello()).ok());
  EXPECT_TRUE(a->complete());
  EXPECT_TRUE(fatal_.empty());
}

TEST_F(HandshakeTest, SaysWhatDiffersAndThatIsFatalBeforeTheJobIsComplete) {
  JobFacts facts = Facts(2);
  facts.solver_hash = 0x23;
  EXPECT_EQ(
      Refusal(facts),
      "node \"fc1\" runs a different solver file (hash 0000000000000023) than node \"conv0\" (hash 0000000000000022)");
  ASSERT_EQ(fatal_.size(), 1u);
  EXPECT_EQ(ExitStatus(fatal_[0]), 2);
  facts.net_hash = 0x12;
  EXPECT_THAT(Refusal(facts), HasSubstr("runs a different net (hash 0000000000000012)"));
  EXPECT_THAT(Refusal(facts), HasSubstr("; node \"fc1\" runs a different solver file"));
}

TEST_F(HandshakeTest, AnotherProtocolOfThisJobEndsIt) {
  const auto hello_of = [this](uint64_t table_hash_change) {
    hp::Hello hello;
    EXPECT_TRUE(hello.ParseFromString(Make(Facts(2))->Hello()));
    hello.set_protocol(kNodeProtocol - 1);
    hello.set_table_hash(hello.table_hash() + table_hash_change);
    return hello.SerializeAsString();
  };
  const std::string want = Format(
      "node \"fc1\" speaks version %u of the nodes' protocol, node \"conv0\" version %u; "
      "install the same hpnode everywhere",
      kNodeProtocol - 1, kNodeProtocol);
  EXPECT_EQ(Make(Facts(0))->Accept(hello_of(1)).status().message(), want);
  EXPECT_TRUE(fatal_.empty()) << "of another job";
  EXPECT_EQ(Make(Facts(0))->Accept(hello_of(0)).status().message(), want);
  ASSERT_EQ(fatal_.size(), 1u);
  EXPECT_EQ(ExitStatus(fatal_[0]), 2);
}

// Protobuf would write a line to stderr for each such text, as often as a stranger likes.
TEST_F(HandshakeTest, TextOfAStrangerIsNotWrittenAboutByProtobuf) {
  hp::Hello hello;
  ASSERT_TRUE(hello.ParseFromString(Make(Facts(2))->Hello()));
  hello.set_job("\xFF\xFE");
  const std::string bytes = hello.SerializePartialAsString();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Make(Facts(0))->Accept(bytes).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(HandshakeTest, ResumeOnOneNodeOnly) {
  JobFacts facts = Facts(1);
  facts.start_clock = 500;
  facts.snapshot_hash = 7;
  EXPECT_EQ(Refusal(facts),
            "--resume on one node only: node \"conv1\" starts at iteration 500, node \"conv0\" at iteration 0");
  const auto resumed = Make(facts);
  JobFacts other = facts;
  other.rank = 0;
  EXPECT_TRUE(resumed->Accept(Make(other)->Hello()).ok());
  other.snapshot_hash = 8;
  EXPECT_THAT(resumed->Accept(Make(other)->Hello()).status().message(),
              HasSubstr("node \"conv0\" resumes from a different snapshot"));
  other.start_clock = 400;
  EXPECT_EQ(resumed->Accept(Make(other)->Hello()).status().message(),
            "node \"conv0\" starts at iteration 400, node \"conv1\" at iteration 500");
}

TEST_F(HandshakeTest, WeightsToBeginWithAreThoseOfAll) {
  JobFacts facts = Facts(1), other = Facts(0);
  facts.weights_hash = 7;
  EXPECT_TRUE(Make(facts)->Accept(Make(other)->Hello()).ok()) << "a node may be without the file";
  other.weights_hash = 8;
  EXPECT_THAT(Make(facts)->Accept(Make(other)->Hello()).status().message(),
              HasSubstr("node \"conv0\" begins with different weights (hash 0000000000000008)"));
}

TEST_F(HandshakeTest, TheLatestSnapshotIsTheNewestOfAllHellos) {
  JobFacts facts = Facts(0), other = Facts(1);
  facts.resume_latest.emplace();
  EXPECT_EQ(Make(facts)->Accept(Make(other)->Hello()).status().message(),
            "node \"conv0\" resumes from the latest snapshot (--resume=latest), node \"conv1\" does not");
  other.resume_latest.emplace().mutable_snapshot()->set_iteration(40);
  other.resume_latest->set_snapshot_hash(9);
  other.resume_latest->mutable_snapshot()->set_random_seed(3);
  const auto here = Make(facts);
  EXPECT_FALSE(here->latest_snapshot().has_value());
  EXPECT_TRUE(here->Accept(Make(other)->Hello()).ok());
  ASSERT_TRUE(here->latest_snapshot().has_value());
  EXPECT_EQ(here->latest_snapshot()->manifest.iteration(), 40);
  EXPECT_THAT(here->latest_snapshot()->holders, ElementsAre(1));
  other.resume_latest->mutable_snapshot()->set_iteration(-1);
  EXPECT_THAT(Make(facts)->Accept(Make(other)->Hello()).status().message(), HasSubstr("a snapshot of iteration -1"));
}

TEST_F(HandshakeTest, DatasetsOfNodesThatReadDataMustAgree) {
  JobFacts reader = Facts(0), other = Facts(1);
  DataShape shape;
  shape.set_records(1000);
  for (const int dim : {3, 32, 16}) shape.add_data(dim);
  reader.dataset_hash = 0x31;
  reader.data_shapes = {shape};
  const auto here = Make(reader);
  EXPECT_TRUE(here->Accept(Make(other)->Hello()).ok());  // reads no data
  other.dataset_hash = 0x32;
  shape.set_records(999);
  other.data_shapes = {shape};
  EXPECT_EQ(
      here->Accept(Make(other)->Hello()).status().message(),
      "node \"conv1\" reads a different data set (999 training records of 3x32x16, hash 0000000000000032) than node "
      "\"conv0\" (1000 training records of 3x32x16, hash 0000000000000031)");
  other.dataset_hash = 0x31;
  shape.set_records(1000);
  shape.add_label(32);
  shape.add_label(16);
  other.data_shapes = {shape};
  EXPECT_THAT(here->Accept(Make(other)->Hello()).status().message(),
              HasSubstr("1000 training records of 3x32x16 with labels of 32x16, hash 0000000000000031) than"));
  // A node without data learns its input shapes.
  const auto fc = Make(Facts(3));
  EXPECT_TRUE(fc->data_shapes().empty());
  EXPECT_TRUE(fc->Accept(here->Hello()).ok());
  ASSERT_EQ(fc->data_shapes().size(), 1u);
  EXPECT_EQ(fc->data_shapes()[0].data(1), 32);
}

TEST_F(HandshakeTest, SeedIsDrawnByTheFirstNodeAndLearntByTheOthers) {
  const auto first = Make(Facts(0)), other = Make(Facts(2));
  ASSERT_TRUE(first->seed().has_value());
  EXPECT_GE(*first->seed(), 0);
  EXPECT_NE(Make(Facts(0))->seed(), Make(Facts(0))->seed());
  EXPECT_FALSE(other->seed().has_value());
  EXPECT_TRUE(other->Accept(Make(Facts(1))->Hello()).ok());
  EXPECT_FALSE(other->seed().has_value());
  EXPECT_TRUE(other->Accept(first->Hello()).ok());
  EXPECT_EQ(other->seed(), first->seed());
}

TEST_F(HandshakeTest, GivenSeedsMustAgree) {
  JobFacts a = Facts(0), b = Facts(2);
  a.random_seed = 5;
  const auto here = Make(a);
  EXPECT_EQ(here->seed(), 5);
  EXPECT_TRUE(here->Accept(Make(b)->Hello()).ok());
  b.random_seed = 6;
  EXPECT_EQ(here->Accept(Make(b)->Hello()).status().message(), "node \"fc1\" has random_seed 6, node \"conv0\" has 5");
}

TEST_F(HandshakeTest, StrangersCostUsNothing) {
  const auto here = Make(Facts(0));
  EXPECT_FALSE(here->Accept("").ok());
  EXPECT_FALSE(here->Accept("GET / HTTP/1.1\r\n\r\n").ok());
  EXPECT_FALSE(here->Accept(std::string(kMaxHelloBytes + 1, 'x')).ok());
  const RoutingTable other_job = MakeTable(std::string(kTable) + "job: \"other\"");
  EXPECT_EQ(here->Accept(JobHandshake(other_job, Facts(1), {}).Hello()).status().message(),
            "node \"conv1\" belongs to the job \"other\", which is not the one here");
  const RoutingTable other_table = MakeTable(std::string(kTable) + "batch: PER_REPLICA");
  EXPECT_THAT(here->Accept(JobHandshake(other_table, Facts(1), {}).Hello()).status().message(),
              HasSubstr("has a different routing table"));
  EXPECT_EQ(here->Accept(here->Hello()).status().message(), "node \"conv0\" was started twice");
  EXPECT_TRUE(fatal_.empty());
}

TEST_F(HandshakeTest, HostileHellosStayOutOfTheLog) {
  const auto here = Make(Facts(0));
  hp::Hello hello;
  ASSERT_TRUE(hello.ParseFromString(Make(Facts(1))->Hello()));
  hello.set_rank(1 << 30);
  EXPECT_THAT(here->Accept(hello.SerializeAsString()).status().message(), HasSubstr("contradicts the routing table"));
  hello.set_rank(-5);
  EXPECT_FALSE(here->Accept(hello.SerializeAsString()).ok());
  hello.set_job("x\n\x1b[31m" + std::string(10000, 'y'));
  const std::string message = here->Accept(hello.SerializeAsString()).status().message();
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_TRUE(fatal_.empty());
}

TEST_F(HandshakeTest, ARunningJobIsNotStoppedByALateNode) {
  const auto here = Make(Facts(0));
  for (Rank rank : {1, 2, 3}) EXPECT_TRUE(here->Accept(Make(Facts(rank))->Hello()).ok());
  JobFacts late = Facts(2);
  late.net_hash = 0x99;
  EXPECT_FALSE(here->Accept(Make(late)->Hello()).ok());
  here->OnRefused(1, FailedPrecondition("no"));
  EXPECT_TRUE(fatal_.empty());
}

TEST_F(HandshakeTest, BeingRefusedIsFatalOnce) {
  const auto here = Make(Facts(3));
  here->OnRefused(0, FailedPrecondition("why"));
  here->OnRefused(1, FailedPrecondition("why again"));
  ASSERT_EQ(fatal_.size(), 1u);
  EXPECT_EQ(fatal_[0].message(), "why");
}

TEST_F(HandshakeTest, ARefusalCannotWriteLinesOfItsOwn) {
  Make(Facts(3))->OnRefused(0, FailedPrecondition("why\nI0101 well"));
  ASSERT_EQ(fatal_.size(), 1u);
  EXPECT_EQ(fatal_[0].message(), "why\\x0aI0101 well");
  std::string said;
  ClientHandshake client(table_, [&said](const Status& status) { said = status.message(); });
  client.OnRefused(0, FailedPrecondition("why\x1b[2J"));
  EXPECT_EQ(said, "why\\x1b[2J");
}

TEST_F(HandshakeTest, WhoComesToAJobThatIsGivenUpHearsWhy) {
  const auto here = Make(Facts(0));
  JobFacts other = Facts(2);
  other.net_hash = 0x99;
  const std::string hello = Make(other)->Hello();
  const std::string why = here->Accept(hello).status().message();
  EXPECT_THAT(why, HasSubstr("runs a different net"));
  here->OnRefusalSent(hello);
  EXPECT_EQ(here->Accept(Make(Facts(1))->Hello()).status().message(), "the job cannot start: " + why);
  here->OnRefused(3, FailedPrecondition("no"));
  here->OnRefused(kFirstClientRank, FailedPrecondition("a client's"));
  here->OnRefusalSent("rubbish");
  EXPECT_THAT(parted_, ElementsAre(Pair(2, true), Pair(3, false)));
  ASSERT_EQ(fatal_.size(), 1u);
}

TEST_F(HandshakeTest, ClientsHaveNoSeat) {
  const auto here = Make(Facts(0));
  ClientHandshake client(table_, [](const Status&) {});
  const auto first = here->Accept(client.Hello()), second = here->Accept(client.Hello());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GE(*first, kFirstClientRank);
  EXPECT_NE(*first, *second);
  ClientHandshake controller(
      table_, [](const Status&) {}, /*control=*/true);
  EXPECT_TRUE(here->ClaimsControl(controller.Hello()) && !here->ClaimsControl(client.Hello()));
  EXPECT_GE(*here->Accept(controller.Hello()), kFirstControllerRank);
  EXPECT_EQ(*client.Accept(here->Hello()), 0);
  const RoutingTable other_job = MakeTable(std::string(kTable) + "job: \"other\"");
  ClientHandshake stranger(other_job, [](const Status&) {});
  EXPECT_FALSE(here->Accept(stranger.Hello()).ok());
  EXPECT_FALSE(stranger.Accept(here->Hello()).ok());
  for (Rank rank : {1, 2}) EXPECT_TRUE(here->Accept(Make(Facts(rank))->Hello()).ok());
  EXPECT_FALSE(here->complete()) << "three nodes of four, and two clients";
  EXPECT_TRUE(here->Accept(Make(Facts(3))->Hello()).ok());
  EXPECT_TRUE(here->complete());
}

TEST_F(HandshakeTest, ClientsAreFew) {
  const auto here = Make(Facts(0));
  ClientHandshake client(table_, [](const Status&) {});
  std::vector<Rank> clients;
  for (size_t i = 0; i < JobHandshake::kMaxClients; ++i) {
    clients.push_back(*here->Accept(client.Hello()));
    here->OnConnected(clients.back());
  }
  EXPECT_EQ(here->Accept(client.Hello()).status().code(), StatusCode::kResourceExhausted);
  here->OnClientGone(clients[3]);
  EXPECT_TRUE(here->Accept(client.Hello()).ok());
}

TEST_F(HandshakeTest, FromWhereAClientCameIsKnownWhileItIsConnected) {
  const auto here = Make(Facts(0));
  ClientHandshake client(
      table_, [](const Status&) {}, true);
  const Rank rank = *here->Accept(client.Hello());
  EXPECT_EQ(here->ClientAddress(rank), "");
  here->OnClientAddress(rank, "10.0.0.7:40312");
  here->OnConnected(rank);
  EXPECT_EQ(here->ClientAddress(rank), "10.0.0.7:40312");
  EXPECT_EQ(here->ClientAddress(rank + 1), "");
  here->OnClientGone(rank);
  EXPECT_EQ(here->ClientAddress(rank), "");
}

TEST_F(HandshakeTest, AHelloInTheNameOfAConnectedNodeChangesNothing) {
  const auto here = Make(Facts(0));
  for (Rank rank : {1, 2, 3}) {
    ASSERT_TRUE(here->Accept(Make(Facts(rank))->Hello()).ok());
    if (rank < 3) here->OnConnected(rank);
  }
  const int threads = here->ThreadsOf(2);
  JobFacts facts = Facts(2);
  facts.core_pools = {{0xC, 64}};
  (void)here->Accept(Make(facts)->Hello());
  EXPECT_EQ(here->ThreadsOf(2), threads);
}

TEST_F(HandshakeTest, AnotherNetInTheNameOfAConnectedNodeIsRefusedAndEndsNothing) {
  const auto here = Make(Facts(0));
  ASSERT_TRUE(here->Accept(Make(Facts(2))->Hello()).ok());
  here->OnConnected(2);
  JobFacts facts = Facts(2);
  facts.net_hash += 1;
  EXPECT_FALSE(here->Accept(Make(facts)->Hello()).ok());
  EXPECT_TRUE(fatal_.empty());
  EXPECT_TRUE(here->Accept(Make(Facts(1))->Hello()).ok()) << "the job still comes together";
}

TEST_F(HandshakeTest, ThreadsShareTheHostsCores) {
  // Host 0xA has the nodes 0 and 2; host 0xB the nodes 1 and 3, of which 3 says 3 threads of the 8.
  const auto here = Make(Facts(0));
  for (Rank rank : {1, 2, 3}) ASSERT_TRUE(here->Accept(Make(Facts(rank))->Hello()).ok());
  EXPECT_EQ(here->ThreadsOf(0), 4);
  EXPECT_EQ(here->ThreadsOf(2), 4);
  EXPECT_EQ(here->ThreadsOf(1), 5);
  EXPECT_EQ(here->ThreadsOf(3), 3);
}

TEST_F(HandshakeTest, ThreadsThatDoNotDivideGoToTheFirst) {
  const auto facts = [](Rank rank) {
    JobFacts f = Facts(rank);
    f.host_id = 0;  // unknown: the table's names count, a: 0 and 2, b: 1 and 3
    f.core_pools = {{0xC, rank % 2 == 0 ? 5 : 2}};
    return f;
  };
  const auto here = Make(facts(0));
  for (Rank rank : {1, 2, 3}) ASSERT_TRUE(here->Accept(Make(facts(rank))->Hello()).ok());
  EXPECT_EQ(here->ThreadsOf(0), 3);
  EXPECT_EQ(here->ThreadsOf(2), 2);
  EXPECT_EQ(here->ThreadsOf(1), 1);  // nothing is left, but one thread is needed
}

TEST_F(HandshakeTest, NodesOfOneHostAreKnownByItsIdElseByItsName) {
  const auto here = Make(Facts(0));
  for (Rank rank : {1, 2, 3}) {
    JobFacts facts = Facts(rank);
    if (rank == 3) facts.host_id = 0;  // unknown; the table has it on b, as node 1
    ASSERT_TRUE(here->Accept(Make(facts)->Hello()).ok());
  }
  EXPECT_EQ(here->NodesOnHostOf(0), (std::vector<Rank>{0, 2}));
  EXPECT_EQ(here->NodesOnHostOf(1), (std::vector<Rank>{1, 3}));
}

// Batch systems bind the tasks of one host to processors of their own.
TEST_F(HandshakeTest, NodesWithProcessorsOfTheirOwnDoNotShareThem) {
  const auto facts = [](Rank rank) {
    JobFacts f = Facts(rank);
    f.core_pools = {{0xC0u + static_cast<uint64_t>(rank), 4}};
    return f;
  };
  const auto here = Make(facts(0));
  for (Rank rank : {1, 2, 3}) ASSERT_TRUE(here->Accept(Make(facts(rank))->Hello()).ok());
  EXPECT_EQ(here->ThreadsOf(0), 4);
  EXPECT_EQ(here->ThreadsOf(2), 4);
  EXPECT_EQ(here->ThreadsOf(1), 4) << "node 3, with threads in the table, has other processors";
}

TEST_F(HandshakeTest, QuotasAreSharedByTheNodesOfTheirGroup) {
  constexpr uint64_t kCpus = 0xC, kOuter = 1, kInner = 2, kOther = 3;
  const auto facts = [](Rank rank) {
    JobFacts f = Facts(rank);
    f.host_id = 0xA;
    f.core_pools = {{kCpus, 16}, {rank == 2 ? kOther : kInner, rank == 2 ? 4 : 5}, {kOuter, 9}};
    return f;
  };
  const auto here = Make(facts(0));
  for (Rank rank : {1, 2, 3}) ASSERT_TRUE(here->Accept(Make(facts(rank))->Hello()).ok());
  // Node 3 takes 3 of the inner group's 5, of the outer one's 9 and of the 16 processors.
  EXPECT_EQ(here->ThreadsOf(0), 1);
  EXPECT_EQ(here->ThreadsOf(1), 1);
  EXPECT_EQ(here->ThreadsOf(2), 2) << "of the outer group's 6";
}

TEST_F(HandshakeTest, ThreadsStayInBounds) {
  const auto facts = [](Rank rank) {
    JobFacts f = Facts(rank);
    f.host_id = static_cast<uint64_t>(rank) + 1;
    if (rank == 0) f.core_pools = {{0xC, 1 << 30}};
    if (rank == 1) f.core_pools = {{0xC, -5}};
    if (rank == 2) f.core_pools.clear();
    return f;
  };
  const auto here = Make(facts(0));
  for (Rank rank : {1, 2, 3}) ASSERT_TRUE(here->Accept(Make(facts(rank))->Hello()).ok());
  EXPECT_EQ(here->ThreadsOf(0), kMaxThreads);
  EXPECT_EQ(here->ThreadsOf(1), 1);
  EXPECT_EQ(here->ThreadsOf(2), 1);
}

}  // namespace
}  // namespace hp

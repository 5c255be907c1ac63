#include "scheduler/control/client_desk.h"

#include "scheduler/control/messages.h"
#include "test/support/log_lines.h"
#include "transport/partial_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr Rank kController = kFirstControllerRank;

/// Keeps what is sent.
class KeepingTransport : public PartialTransport {
 public:
  Status Send(Rank to, uint32_t type, std::span<const std::byte> bytes) override {
    if (full) return ResourceExhausted("full");
    sent.emplace_back(to, type);
    const auto parse = [&](auto* message) { message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())); };
    if (type == kOrderAnswer) parse(&answer);
    if (type == kStatusAnswer) parse(&status);
    return OkStatus();
  }
  void Break(Rank, const Status&) override { ++breaks; }

  bool full = false;
  int breaks = 0;
  std::vector<std::pair<Rank, uint32_t>> sent;
  OrderAnswer answer;
  JobStatus status;
};

class ClientDeskTest : public testing::Test {
 protected:
  ClientDeskTest() { requests_.Keep(1, -1, std::nullopt, 100); }
  static JobOrder Order(JobOrder::Kind kind) {
    JobOrder order;
    order.set_kind(kind);
    return order;
  }

  KeepingTransport transport_;
  BoundaryRequests requests_{0};
  bool training_ = true;
  int stops_ = 0;
  ClientDesk desk_{{.transport = &transport_,
                    .requests = &requests_,
                    .status =
                        [] {
                          JobStatus status;
                          status.set_job("j");
                          return status;
                        },
                    .training = [this] { return training_; },
                    .stop = [this] { ++stops_; },
                    .address = [](Rank) { return "10.0.0.7:40312"; }}};
};

TEST_F(ClientDeskTest, AStatusIsAnsweredAtOnce) {
  desk_.OnStatusRequest(kFirstClientRank);
  EXPECT_EQ(transport_.sent, (std::vector<std::pair<Rank, uint32_t>>{{kFirstClientRank, kStatusAnswer}}));
  EXPECT_EQ(transport_.status.job(), "j");
}

TEST_F(ClientDeskTest, AnOrderIsAnsweredWithItsVerdict) {
  desk_.OnOrder(kController, Order(JobOrder::SNAPSHOT));
  EXPECT_TRUE(transport_.sent.empty());
  IterationReport report;
  report.set_clock(5);
  requests_.AddReport(0, report, [](const Verdict& verdict) { EXPECT_TRUE(verdict.snapshot()); });
  EXPECT_EQ(transport_.sent, (std::vector<std::pair<Rank, uint32_t>>{{kController, kOrderAnswer}}));
  EXPECT_EQ(transport_.answer.status(), 0);
  EXPECT_EQ(transport_.answer.iteration(), 7);
}

TEST_F(ClientDeskTest, BeforeTrainingAJobCanOnlyBeStopped) {
  training_ = false;
  desk_.OnOrder(kController, Order(JobOrder::SNAPSHOT));
  EXPECT_EQ(transport_.answer.message(), "the job does not train yet");
  desk_.OnOrder(kController, Order(JobOrder::STOP));
  EXPECT_EQ(stops_, 1);
  EXPECT_EQ(transport_.answer.status(), 0);
}

TEST_F(ClientDeskTest, WhoGaveAnOrderIsLoggedAndStandsInTheStatus) {
  test::LogLines log;
  desk_.OnStatusRequest(kFirstClientRank);
  EXPECT_FALSE(transport_.status.has_last_order());
  JobOrder order = Order(JobOrder::STOP);
  order.mutable_giver()->set_user("anna");
  desk_.OnOrder(kController, order);
  const std::string text = R"(order stop from 10.0.0.7:40312, which says it is "anna" on "", program "", process 0)";
  EXPECT_EQ(log.Await("order stop from"), text);
  desk_.OnStatusRequest(kFirstClientRank);
  EXPECT_EQ(transport_.status.last_order().text(), text);
  EXPECT_GT(transport_.status.last_order().time_s(), 0);
  IterationReport report;
  report.set_clock(5);
  requests_.AddReport(0, report, [](const Verdict&) {});
  EXPECT_EQ(log.Await("in front of"), "order stop: in front of iteration 7");
  desk_.OnOrder(kController, Order(JobOrder::SNAPSHOT));  // a client of an earlier version says nothing
  EXPECT_EQ(log.Await("order snapshot from"), "order snapshot from 10.0.0.7:40312, which does not say who it is");
  EXPECT_EQ(log.Await("is refused"), "order snapshot is refused: the job stops at iteration 7");
}

TEST_F(ClientDeskTest, WhoAsksAndDoesNotReadIsDropped) {
  transport_.full = true;
  desk_.OnStatusRequest(kController);
  EXPECT_EQ(transport_.breaks, 1);
}

}  // namespace
}  // namespace hp

#include "scheduler/control/client_desk.h"

#include "scheduler/control/messages.h"
#include "transport/partial_transport.h"

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
                    .stop = [this] { ++stops_; }}};
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

TEST_F(ClientDeskTest, WhoAsksAndDoesNotReadIsDropped) {
  transport_.full = true;
  desk_.OnStatusRequest(kController);
  EXPECT_EQ(transport_.breaks, 1);
}

}  // namespace
}  // namespace hp

#include "engine/stage_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace hp::test {
namespace {

/// Writes down what it is asked; the test says when something is a sum.
class ScriptedExchange : public Exchange {
 public:
  ScriptedExchange(Callbacks callbacks, std::vector<std::string>* calls)
      : callbacks_(std::move(callbacks)), calls_(calls) {}
  void Add(uint64_t clock, int param, std::span<float> gradient) override {
    calls_->push_back("add " + std::to_string(clock) + " " + std::to_string(param) + ": " +
                      std::to_string(gradient.size()));
    if (at_once) callbacks_.on_exchanged(clock, param);
  }
  void Flush(uint64_t clock) override { calls_->push_back("flush " + std::to_string(clock)); }
  void Abort(const Status& cause) override { calls_->push_back("abort: " + cause.message()); }
  void Summed(uint64_t clock, int param) { callbacks_.on_exchanged(clock, param); }
  void Fail(const Status& status) { callbacks_.on_failure(status); }

  bool at_once = false;

 private:
  const Callbacks callbacks_;
  std::vector<std::string>* const calls_;
};

class StageExchangeTest : public testing::Test {
 protected:
  using Event = std::tuple<int64_t, int, int>;  // clock, stage, group

  StageExchangeTest() {
    std::vector<StoredParam> stored;
    for (int64_t size : {6, 3, 5, 2}) {
      stored.push_back({.layer = "layer", .blob = static_cast<int>(stored.size()), .whole = {size}});
    }
    auto params = ParamStore::Create(device_.get(), stored);
    EXPECT_TRUE(params.ok()) << params.status();
    params_ = *std::move(params);
  }
  std::unique_ptr<StageExchange> Make(const ExchangedGroups& groups) {
    const auto connect = [this](Exchange::Callbacks callbacks) -> StatusOr<std::unique_ptr<Exchange>> {
      auto made = std::make_unique<ScriptedExchange>(std::move(callbacks), &calls_);
      inner_ = made.get();
      return std::unique_ptr<Exchange>(std::move(made));
    };
    auto exchange = StageExchange::Create(7, groups, params_.get(), connect,
                                          {.on_exchanged =
                                               [this](int64_t clock, int stage, int group) {
                                                 events_.push_back({clock, stage, group});
                                               },
                                           .on_values = nullptr,
                                           .on_failure = [this](const Status& status) { failure_ = status; }});
    EXPECT_TRUE(exchange.ok()) << exchange.status();
    return *std::move(exchange);
  }

  std::unique_ptr<Device> device_ = MakeHostDevice();
  std::unique_ptr<ParamStore> params_;
  ScriptedExchange* inner_ = nullptr;
  std::vector<std::string> calls_;
  std::vector<Event> events_;
  Status failure_;
};

TEST_F(StageExchangeTest, FlushesBehindTheLastUnitOfEachClock) {
  const auto exchange = Make({{0, {0, 1}}, {2, {3}}});
  for (int64_t clock : {4, 5}) {
    exchange->Add(clock, 2);
    exchange->Add(clock, 0);
  }
  EXPECT_THAT(calls_, testing::ElementsAre("add 4 3: 2", "add 4 0: 6", "add 4 1: 3", "flush 4", "add 5 3: 2",
                                           "add 5 0: 6", "add 5 1: 3", "flush 5"));
  EXPECT_TRUE(events_.empty());
}

TEST_F(StageExchangeTest, ReportsAUnitWhenTheLastOfItsParametersIsASum) {
  const auto exchange = Make({{0, {0, 1}}, {2, {3}}});
  exchange->Add(4, 2);
  exchange->Add(4, 0);
  inner_->Summed(4, 1);
  EXPECT_TRUE(events_.empty());
  inner_->Summed(4, 3);
  EXPECT_THAT(events_, testing::ElementsAre(Event(4, 7, 2)));
  inner_->Summed(4, 0);
  EXPECT_THAT(events_, testing::ElementsAre(Event(4, 7, 2), Event(4, 7, 0)));
}

TEST_F(StageExchangeTest, ASumMayBeThereBeforeTheNextParameterIsAdded) {
  const auto exchange = Make({{1, {0, 1, 2}}});
  inner_->at_once = true;
  exchange->Add(0, 1);
  EXPECT_THAT(events_, testing::ElementsAre(Event(0, 7, 1)));
}

TEST_F(StageExchangeTest, PassesFailuresAndAbortsOn) {
  const auto exchange = Make({{0, {0}}});
  inner_->Fail(Unavailable("a replica is lost"));
  EXPECT_EQ(failure_.message(), "a replica is lost");
  exchange->Abort(Cancelled("the end"));
  EXPECT_THAT(calls_, testing::ElementsAre("abort: the end"));
}

TEST_F(StageExchangeTest, WithoutUnitsThereIsNone) {
  EXPECT_EQ(Make({}), nullptr);
  EXPECT_EQ(inner_, nullptr);
}

}  // namespace
}  // namespace hp::test

// When a node stops waiting for the others, and when it knows that the job cannot start.
#include "scheduler/control/job_bootstrap.h"

#include "test/support/small_job.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

class JobBootstrapTest : public ::testing::Test {
 protected:
  static JobFacts Facts(Rank rank) {
    JobFacts facts;
    facts.rank = rank;
    return facts;
  }
  void ConnectAll(JobBootstrap* bootstrap, Rank self) {
    for (Rank peer = 0; peer < table_.size(); ++peer) {
      if (peer != self) bootstrap->OnConnected(peer);
    }
  }
  const RoutingTable table_ = MakeTable(kTable);
};

TEST_F(JobBootstrapTest, EndsWhenTheWaysToAllAreSettled) {
  JobBootstrap bootstrap(table_, Facts(1));
  ConnectAll(&bootstrap, 1);
  for (Rank peer : {0, 2, 3}) bootstrap.OnRouteSettled(peer);
  EXPECT_TRUE(bootstrap.Wait().ok());
}

TEST_F(JobBootstrapTest, IsNotOverWhenAllAreMet) {
  JobBootstrap bootstrap(table_, Facts(1));
  ConnectAll(&bootstrap, 1);
  bootstrap.Abort(Cancelled("over"));
  EXPECT_EQ(bootstrap.Wait().code(), StatusCode::kCancelled);
}

/// Nobody waits for a way to be settled when the job can't come together any more.
TEST_F(JobBootstrapTest, ANodeThatGoesWithAWordEndsItWhateverIsSettled) {
  for (Rank self : {0, 2}) {
    JobBootstrap bootstrap(table_, Facts(self));
    ConnectAll(&bootstrap, self);
    bootstrap.OnRouteSettled(3);
    EXPECT_TRUE(bootstrap.OnLost(Unavailable("node 1 said why"), /*said=*/true));
    EXPECT_EQ(bootstrap.Wait().message(), "node 1 said why");
    EXPECT_EQ(bootstrap.rejection().message(), "node 1 said why");
  }
}

TEST_F(JobBootstrapTest, TheFirstNodeIsDoneWhenThoseThatHaveNotComeAreGivenUp) {
  JobBootstrap bootstrap(table_, Facts(0));
  bootstrap.OnConnected(1);
  EXPECT_TRUE(bootstrap.OnLost(Unavailable("node 1 said why"), /*said=*/true));
  for (Rank peer : {2, 3}) EXPECT_FALSE(bootstrap.OnConnectFailed(peer)) << "no news";
  EXPECT_EQ(bootstrap.Wait().message(), "node 1 said why");
}

TEST_F(JobBootstrapTest, ANodeThatIsGoneWithoutAWordIsTheWatchsAffair) {
  JobBootstrap bootstrap(table_, Facts(2));
  ConnectAll(&bootstrap, 2);
  EXPECT_FALSE(bootstrap.OnLost(Unavailable("silence"), /*said=*/false));
  EXPECT_TRUE(bootstrap.rejection().ok());
}

}  // namespace
}  // namespace hp

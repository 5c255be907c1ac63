// When a node goes on from meeting the others, and when it knows that the job can't come together.
#include "scheduler/control/meeting.h"

#include "test/unit/routing/table_text.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

class MeetingTest : public ::testing::Test {
 protected:
  static JobFacts Facts(Rank rank) {
    JobFacts facts;
    facts.rank = rank;
    return facts;
  }
  void MeetAll(Meeting* meeting, Rank self) {
    for (Rank peer = 0; peer < table_.size(); ++peer) {
      if (peer != self) meeting->OnMet(peer);
    }
  }
  const RoutingTable table_ = MakeTable(kTable);
};

TEST_F(MeetingTest, EndsWhenTheWaysToAllAreSettled) {
  Meeting meeting(table_, Facts(1));
  MeetAll(&meeting, 1);
  for (Rank peer : {0, 2, 3}) meeting.OnSettled(peer);
  EXPECT_TRUE(meeting.Wait().ok());
}

TEST_F(MeetingTest, IsNotOverWhenAllAreMet) {
  Meeting meeting(table_, Facts(1));
  MeetAll(&meeting, 1);
  meeting.Abort(Cancelled("over"));
  EXPECT_EQ(meeting.Wait().code(), StatusCode::kCancelled);
}

/// Nobody waits for a way to be settled when the job can't come together any more.
TEST_F(MeetingTest, ANodeThatGoesWithAWordEndsItWhateverIsSettled) {
  for (Rank self : {0, 2}) {
    Meeting meeting(table_, Facts(self));
    MeetAll(&meeting, self);
    meeting.OnSettled(3);
    EXPECT_TRUE(meeting.OnLost(Unavailable("node 1 said why"), /*said=*/true));
    EXPECT_EQ(meeting.Wait().message(), "node 1 said why");
    EXPECT_EQ(meeting.apart().message(), "node 1 said why");
  }
}

TEST_F(MeetingTest, TheFirstNodeIsDoneWhenThoseThatHaveNotComeAreGivenUp) {
  Meeting meeting(table_, Facts(0));
  meeting.OnMet(1);
  EXPECT_TRUE(meeting.OnLost(Unavailable("node 1 said why"), /*said=*/true));
  for (Rank peer : {2, 3}) EXPECT_FALSE(meeting.OnConnectFailed(peer)) << "no news";
  EXPECT_EQ(meeting.Wait().message(), "node 1 said why");
}

TEST_F(MeetingTest, ANodeThatIsGoneWithoutAWordIsTheWatchsAffair) {
  Meeting meeting(table_, Facts(2));
  MeetAll(&meeting, 2);
  EXPECT_FALSE(meeting.OnLost(Unavailable("silence"), /*said=*/false));
  EXPECT_TRUE(meeting.apart().ok());
}

}  // namespace
}  // namespace hp

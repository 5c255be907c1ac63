#include "transport/connect/host_check.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <chrono>

namespace hp {
namespace {

using Answer = HostCheck::Answer;

class HostCheckTest : public testing::Test {
 protected:
  Answer Belongs(Rank rank, const char* from) { return check_->Belongs(rank, boost::asio::ip::make_address(from)); }

  FakeClock clock_;
  boost::asio::io_context io_;
  const std::shared_ptr<HostCheck> check_ = std::make_shared<HostCheck>(&io_, &clock_);
};

TEST_F(HostCheckTest, AnAddressIsItself) {
  check_->Expect(1, "192.0.2.7");
  check_->Expect(2, "2001:db8::1");
  EXPECT_EQ(Belongs(1, "192.0.2.7"), Answer::kYes);
  EXPECT_EQ(Belongs(1, "::ffff:192.0.2.7"), Answer::kYes) << "as a socket of IPv6 shows it";
  EXPECT_EQ(Belongs(2, "2001:db8::1"), Answer::kYes);
  EXPECT_EQ(Belongs(1, "192.0.2.8"), Answer::kNo);
  EXPECT_EQ(Belongs(1, "127.0.0.1"), Answer::kNo) << "this host is not that one";
  EXPECT_EQ(Belongs(3, "192.0.2.7"), Answer::kNo) << "nobody is expected";
  EXPECT_EQ(check_->AddressesOf(1), "192.0.2.7");
}

TEST_F(HostCheckTest, AllAddressesOfThisHostAreOne) {
  check_->Expect(1, "127.0.1.1");  // as Debian's /etc/hosts names a host
  EXPECT_EQ(Belongs(1, "127.0.0.1"), Answer::kYes);
  EXPECT_EQ(Belongs(1, "::1"), Answer::kYes);
  EXPECT_EQ(Belongs(1, "192.0.2.7"), Answer::kNo);
}

TEST_F(HostCheckTest, ANameIsLookedUpAgainBeforeAnybodyIsTurnedAway) {
  check_->Expect(1, "localhost");
  EXPECT_EQ(Belongs(1, "192.0.2.7"), Answer::kAskAgain);
  io_.run_for(std::chrono::seconds(60));
  clock_.Advance(kNsPerSecond / 2);
  EXPECT_EQ(Belongs(1, "127.0.0.1"), Answer::kYes);
  EXPECT_EQ(Belongs(1, "192.0.2.7"), Answer::kNo) << "the answer is fresh";
  clock_.Advance(kNsPerSecond);
  EXPECT_EQ(Belongs(1, "192.0.2.7"), Answer::kAskAgain) << "the name may have moved";
  EXPECT_EQ(Belongs(1, "127.0.0.1"), Answer::kYes) << "what was known counts meanwhile";
  io_.restart();
  io_.run_for(std::chrono::seconds(60));
  EXPECT_EQ(Belongs(1, "192.0.2.7"), Answer::kNo);
}

}  // namespace
}  // namespace hp

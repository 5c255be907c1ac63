#include "transport/connect/tcp_listener.h"

#include "base/format.h"
#include "base/port_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(TcpListenerTest, APortInUseNamesItsHolder) {
  const auto first = TcpListener::Bind("127.0.0.1", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_GT((*first)->port(), 0);
  const auto second = TcpListener::Bind("127.0.0.1", (*first)->port());
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr(Format("127.0.0.1:%d: Address already in use", (*first)->port())),
                    HasSubstr(Format("held by unit_transport_ (process %d)", getpid()))));
}

TEST(TcpListenerTest, AFreedPortIsFreeAtOnce) {
  auto first = TcpListener::Bind("127.0.0.1", 0);
  const int port = (*first)->port();
  EXPECT_TRUE(FindPortHolder(port).has_value());
  *first = nullptr;
  EXPECT_FALSE(FindPortHolder(port).has_value());
  EXPECT_TRUE(TcpListener::Bind("127.0.0.1", port).ok());
}

TEST(TcpListenerTest, AForeignAddressIsNamed) {
  EXPECT_THAT(TcpListener::Bind("192.0.2.1", 4000).status().message(), HasSubstr("192.0.2.1:4000: Cannot assign"));
  EXPECT_THAT(TcpListener::Bind("no host", 4000).status().message(), HasSubstr("\"no host\""));
  EXPECT_THAT(TcpListener::Bind("127.0.0.1", 70000).status().message(), HasSubstr("127.0.0.1:70000"));
}

}  // namespace
}  // namespace hp

#include "transport/connect/dialer.h"

#include "transport/connect/tcp_listener.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <chrono>

namespace hp {
namespace {

/// Names on both ends, as in a table: the listener binds one, the other end dials it from one.
TEST(Dialer, ConnectsByName) {
  const auto listener = TcpListener::Bind("localhost", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  boost::asio::io_context io;
  int remote_port = 0;
  const auto on_socket = [&](TcpSocket socket) {
    remote_port = socket.remote_endpoint().port();
    io.stop();
  };
  const auto dialer = std::make_shared<Dialer>(&io, "localhost", (*listener)->port(), "localhost", on_socket);
  dialer->Attempt();
  io.run_for(std::chrono::seconds(60));
  EXPECT_EQ(remote_port, (*listener)->port()) << dialer->cause();
  dialer->Stop();
}

}  // namespace
}  // namespace hp

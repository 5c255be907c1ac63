// What is received goes straight where it belongs.
#include "test/contract/fixtures.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/wire.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(TcpReceiveTest, PayloadIsReceivedIntoThePlace) {
  constexpr size_t kBytes = 3'000'000;
  std::vector<std::byte> place(kBytes);
  std::vector<bool> seen(kBytes);
  size_t elsewhere = 0, calls = 0;
  auto listener = TcpListener::Bind("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const TcpPeer receiver{0, "receiver", "127.0.0.1", (*listener)->port()}, writer{1, "writer", "127.0.0.1", 1};
  TcpOptions options{.rank = 0, .peers = {receiver, writer}};
  options.on_receive = [&](std::span<const std::byte> range) {
    ++calls;
    if (range.data() < place.data() || range.data() >= place.data() + kBytes) {
      elsewhere = std::max(elsewhere, range.size());
      return;
    }
    ASSERT_LE(range.data() + range.size(), place.data() + kBytes);
    std::fill_n(seen.begin() + (range.data() - place.data()), range.size(), true);
  };
  TestNode to(MakeTcpTransport(options, *std::move(listener)), "job", 0);
  TestNode from(MakeTcpTransport({.rank = 1, .peers = {receiver, writer}}, nullptr), "job", 1);
  to.Start();
  from.Start();
  to.Await(Event::kConnected);
  ASSERT_TRUE(to->Grant(1, {.msg_id = 4}, place).ok());
  const std::vector<std::byte> source = Pattern(kBytes, 1);
  ASSERT_TRUE(from->Write(0, {.msg_id = 4}, from.Get(Event::kGranted, {.msg_id = 4}).grant, source).ok());
  EXPECT_TRUE(to.Get(Event::kGrantEnded, {.msg_id = 4}).status.ok());
  to->Stop();
  EXPECT_TRUE(Same(place, source));
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<long>(kBytes));
  EXPECT_EQ(elsewhere, kFrameHeaderBytes) << "no other buffer is received to than a header's";
  EXPECT_GT(calls, 0u);
}

}  // namespace
}  // namespace hp

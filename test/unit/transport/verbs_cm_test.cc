// Queue pairs that librdmacm connects: what counts, what ends them, and who is turned away.
#include "test/unit/transport/verbs_pair.h"
#include "test/unit/transport/wire_peer.h"
#include "transport/verbs/frames.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <thread>

namespace hp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Node 1 connects, node 0 listens.
VerbsPair::Options ByCm(int qps = 1) { return {.settings = {.qps_per_connection = qps, .setup = QpSetup::kRdmaCm}}; }

long Count(FakeVerbs& host, const std::string& call) {
  const std::vector<std::string> calls = host.calls();
  return std::count(calls.begin(), calls.end(), call);
}

/// Both nodes, started; neither gets through. @return what each of them was told.
std::array<std::string, 2> FailToConnect(VerbsPair& pair) {
  std::array<std::string, 2> said;
  for (Rank rank : {0, 1}) EXPECT_TRUE(pair.Make(rank).ok());
  const std::array<int, 2> idle = {pair.host(0).live(), pair.host(1).live()};
  for (Rank rank : {0, 1}) pair.node(rank).Start();
  for (Rank rank : {0, 1}) {
    pair.node(rank).Await(Event::kConnectFailed);
    said[rank] = pair.node(rank).events()[0].status.message();
    EXPECT_EQ(pair.host(rank).live(), idle[rank]) << "nothing is left of it";
  }
  return said;
}

TEST(VerbsCm, RouteAndPacketNumbersAreItsAndTheRestIsOurs) {
  VerbsPair pair({.settings = {.traffic_class = 106,
                               .service_level = 3,
                               .timeout = 12,
                               .retry_count = 3,
                               .qps_per_connection = 2,
                               .setup = QpSetup::kRdmaCm}});
  pair.Connect();
  EXPECT_EQ(Count(pair.host(0), "CmListen"), 1);
  EXPECT_EQ(Count(pair.host(0), "CmAccept"), 3);
  EXPECT_EQ(Count(pair.host(0), "CmConnect"), 0);
  EXPECT_EQ(Count(pair.host(1), "CmListen"), 0);
  EXPECT_EQ(Count(pair.host(1), "CmConnect"), 3);
  EXPECT_TRUE(pair.fabric().cm_ports().empty()) << "nobody listens any longer than he has to";
  for (Rank rank : {0, 1}) {
    const auto init = ModifiedTo(pair.host(rank), IBV_QPS_INIT), rtr = ModifiedTo(pair.host(rank), IBV_QPS_RTR),
               rts = ModifiedTo(pair.host(rank), IBV_QPS_RTS), theirs = ModifiedTo(pair.host(1 - rank), IBV_QPS_RTS);
    ASSERT_EQ(init.size(), 3u);
    ASSERT_EQ(rtr.size(), 3u);
    ASSERT_EQ(rts.size(), 3u);
    EXPECT_EQ(init[0].qp_access_flags, 0u) << "the control queue pair lets nobody write";
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(init[i].qp_access_flags & IBV_ACCESS_REMOTE_READ, 0u);
      EXPECT_EQ(rtr[i].rq_psn, theirs[i].sq_psn);
      EXPECT_EQ(rtr[i].ah_attr.grh.traffic_class, 106);
      EXPECT_EQ(rtr[i].ah_attr.sl, 3);
      EXPECT_GT(rtr[i].min_rnr_timer, 0);
      EXPECT_EQ(rts[i].timeout, 12);
      EXPECT_EQ(rts[i].retry_cnt, 3);
      EXPECT_EQ(rts[i].rnr_retry, 7);
    }
  }
  std::vector<std::byte> place(1 << 20);
  const std::vector<std::byte> source = Pattern(place.size(), 1);
  for (Rank rank : {0, 1}) {
    std::fill(place.begin(), place.end(), std::byte{0});
    pair.Transfer(rank, 1 - rank, {.msg_id = 1}, source, place);
    EXPECT_TRUE(Same(place, source));
  }
}

TEST(VerbsCm, TheSmallerMtuIsUsed) {
  FakeVerbs::Device small = FakeVerbs::Roce();
  small.mtu = IBV_MTU_1024;
  for (const Rank rank_of_small : {0, 1}) {
    VerbsPair::Options options = ByCm();
    options.devices[rank_of_small] = {small};
    VerbsPair pair(options);
    pair.Connect();
    for (Rank rank : {0, 1}) {
      for (const ibv_qp_attr& attributes : ModifiedTo(pair.host(rank), IBV_QPS_RTR)) {
        EXPECT_EQ(attributes.path_mtu, IBV_MTU_1024);
      }
    }
  }
}

TEST(VerbsCm, OnInfiniBandTheHostsOwnAddressCounts) {
  FakeVerbs::Device device;
  device.ethernet = false;
  device.gids = {{GidOfAddress("fe80::5"), 0, 0}};
  device.ip = GidOfAddress("127.0.0.1");
  device.lid = 5;
  VerbsPair::Options options = ByCm();
  options.devices = {{{device}, {device}}};
  VerbsPair pair(options);
  pair.Connect();
  std::vector<std::byte> place(5000);
  const std::vector<std::byte> source = Pattern(place.size(), 1);
  pair.Transfer(0, 1, {.msg_id = 1}, source, place);
  EXPECT_TRUE(Same(place, source));
}

TEST(VerbsCm, AnotherDeviceThanTheOpenOneIsRefused) {
  FakeVerbs::Device other = FakeVerbs::Roce();
  other.name = "other0";
  for (const Rank rank : {0, 1}) {
    VerbsPair::Options options = ByCm();
    options.settings.hca = "fake0";
    options.devices[rank] = {other, FakeVerbs::Roce()};  // both have the address
    VerbsPair pair(options);
    EXPECT_THAT(FailToConnect(pair)[rank],
                HasSubstr("librdmacm finds ::ffff:127.0.0.1 at other0:1, and this node uses fake0:1 (hca"));
  }
}

TEST(VerbsCm, ALinkLocalAddressIsRefused) {
  FakeVerbs::Device device;
  device.gids = {{GidOfAddress("fe80::1"), 0, 2}};
  VerbsPair::Options options = ByCm();
  options.devices[0] = {device};
  VerbsPair pair(options);
  const auto said = FailToConnect(pair);
  EXPECT_THAT(said[0], HasSubstr("fe80::1 is link-local"));
  EXPECT_THAT(said[1], HasSubstr("on the other side: librdmacm needs an address"));
}

TEST(VerbsCm, EveryBadEventIsNamed) {
  struct Case {
    rdma_cm_event_type instead_of, type;
    int status;
    const char* words;
  };
  const Case kCases[] = {
      {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT,
       "queue pair 0: the address can't be resolved (Connection timed out)"},
      {RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH, "queue pair 0: there is no route (Netw"},
      {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, "queue pair 0: the other side does not"},
      {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, "queue pair 0: connecting failed (Inval"},
      {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_REJECTED, 8, "the other side refused: nobody listens there"},
      {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_REJECTED, 10, "the other side refused: reason 10"},
      {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, "queue pair 0: the device was removed"},
      {RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_MULTICAST_JOIN, 0, "queue pair 0: unexpected event 12"},
  };
  for (const Case& one : kCases) {
    VerbsPair pair(ByCm());
    pair.fabric().on_cm_event = [&](const FakeCmId&, FakeCmEvent* event) {
      if (event->event != one.instead_of) return CmFault::kNone;
      event->event = one.type;
      event->status = one.status;
      return CmFault::kNone;
    };
    const auto said = FailToConnect(pair);
    EXPECT_THAT(said[1], AllOf(HasSubstr("librdmacm, queue pair"), HasSubstr(one.words)));
    EXPECT_THAT(said[0], AllOf(HasSubstr("on the other side: librdmacm, queue pair"), HasSubstr(one.words)));
  }
}

TEST(VerbsCm, AnEventThatNeverComesEndsAtTheDeadline) {
  for (const rdma_cm_event_type lost : {RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED}) {
    VerbsPair::Options options = ByCm();
    options.handshake_deadline_ms = 400;  // four times as long, and three quarters of that for librdmacm
    VerbsPair pair(options);
    pair.fabric().on_cm_event = [lost](const FakeCmId&, FakeCmEvent* event) {
      return event->event == lost ? CmFault::kDrop : CmFault::kNone;
    };
    const auto said = FailToConnect(pair);
    for (const std::string& what : said)
      EXPECT_THAT(what, HasSubstr("librdmacm did not connect queue pairs 0 1 within 1.2 s"));
    EXPECT_THAT(said, Contains(Not(HasSubstr("on the other side"))));
  }
}

TEST(VerbsCm, AutoTalksTcpWhereItDoesNotGetThrough) {
  VerbsPair::Options options = ByCm();
  options.handshake_deadline_ms = 400;  // four times as long, and three quarters of that for librdmacm
  options.fall_back = true;
  VerbsPair pair(options);
  pair.fabric().on_cm_event = [](const FakeCmId&, FakeCmEvent* event) {
    return event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? CmFault::kDrop : CmFault::kNone;
  };
  pair.Connect();
  std::vector<std::byte> place(500'000);
  const std::vector<std::byte> source = Pattern(place.size(), 1);
  pair.Transfer(0, 1, {.msg_id = 1}, source, place);
  EXPECT_TRUE(Same(place, source));
  EXPECT_EQ(pair.fabric().counts().posts, 0);
}

TEST(VerbsCm, EventsThatComeLateAreWaitedFor) {
  VerbsPair pair(ByCm(2));
  pair.fabric().on_cm_event = [](const FakeCmId&, FakeCmEvent* event) {
    return event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? CmFault::kHold : CmFault::kNone;
  };
  for (Rank rank : {0, 1}) ASSERT_TRUE(pair.Make(rank).ok());
  for (Rank rank : {0, 1}) pair.node(rank).Start();
  while (pair.fabric().held_cm_events() < 3) std::this_thread::yield();
  EXPECT_TRUE(pair.node(0).events().empty());
  EXPECT_TRUE(pair.node(1).events().empty());
  pair.fabric().ReleaseCmEvents();
  for (Rank rank : {0, 1}) pair.node(rank).Await(Event::kConnected);
}

// What a request says is compared with what the nodes told each other over TCP.
TEST(VerbsCm, ARequestThatIsNotThePeersIsRejected) {
  const std::pair<const char*, std::function<void(FakeCmEvent*)>> kCases[] = {
      {"magic", [](FakeCmEvent* event) { event->data[0] ^= std::byte{1}; }},
      {"version", [](FakeCmEvent* event) { event->data[8] ^= std::byte{2}; }},
      {"queue pair beyond the last", [](FakeCmEvent* event) { event->data[10] = std::byte{9}; }},
      {"queue pair of another request", [](FakeCmEvent* event) { event->data[10] = std::byte{0}; }},
      {"epoch", [](FakeCmEvent* event) { event->data[12] ^= std::byte{1}; }},
      {"nonce", [](FakeCmEvent* event) { event->data[23] ^= std::byte{1}; }},
      {"queue pair number", [](FakeCmEvent* event) { ++event->param.conn.qp_num; }},
      {"no private data", [](FakeCmEvent* event) { event->data.clear(); }},
  };
  for (const auto& [name, change] : kCases) {
    SCOPED_TRACE(name);
    VerbsPair pair(ByCm());
    pair.fabric().on_cm_event = [&change = change](const FakeCmId&, FakeCmEvent* event) {
      if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->data[10] == std::byte{1}) change(event);
      return CmFault::kNone;
    };
    const auto said = FailToConnect(pair);
    EXPECT_THAT(said[1], HasSubstr("librdmacm, queue pair 1: the other side refused the request"));
    EXPECT_THAT(said[0], HasSubstr("on the other side: librdmacm, queue pair 1"));
  }
}

TEST(VerbsCm, AnAnswerThatIsNotThePeersIsRefused) {
  const std::pair<const char*, std::function<void(FakeCmEvent*)>> kCases[] = {
      {"it does not speak our protocol", [](FakeCmEvent* event) { event->data[0] ^= std::byte{1}; }},
      {"queue pair 0: the answer is not the peer's", [](FakeCmEvent* event) { event->data[16] ^= std::byte{1}; }},
      {"queue pair 0: the answer is not the peer's", [](FakeCmEvent* event) { event->data[12] ^= std::byte{1}; }},
      {"librdmacm connected queue pair 0 to qp", [](FakeCmEvent* event) { ++event->param.conn.qp_num; }},
  };
  for (const auto& [words, change] : kCases) {
    SCOPED_TRACE(words);
    VerbsPair pair(ByCm());
    pair.fabric().on_cm_event = [&change = change](const FakeCmId&, FakeCmEvent* event) {
      if (event->event == RDMA_CM_EVENT_CONNECT_RESPONSE && event->data[10] == std::byte{0}) change(event);
      return CmFault::kNone;
    };
    EXPECT_THAT(FailToConnect(pair)[1], HasSubstr(words));
  }
}

/// Somebody who connects by hand, from a host of his own. Its calls wait.
class CmStranger {
 public:
  explicit CmStranger(FakeFabric* fabric) : verbs_(fabric), channel_(verbs_.CmCreateEventChannel()) {}
  ~CmStranger() {
    for (rdma_cm_id* id : ids_) verbs_.CmDestroyId(id);
    verbs_.CmDestroyEventChannel(channel_);
  }
  /// Asks for a connection.
  void Ask(uint16_t port, std::span<const std::byte> private_data, uint32_t qp_number) {
    sockaddr_in own = {}, peer = {};
    own.sin_family = peer.sin_family = AF_INET;
    own.sin_addr.s_addr = peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer.sin_port = htons(port);
    rdma_cm_id* id = verbs_.CmCreateId(channel_, nullptr);
    ids_.push_back(id);
    verbs_.CmResolveAddr(id, reinterpret_cast<sockaddr*>(&own), reinterpret_cast<sockaddr*>(&peer), 1000);
    EXPECT_EQ(Hear(), RDMA_CM_EVENT_ADDR_RESOLVED);
    verbs_.CmResolveRoute(id, 1000);
    EXPECT_EQ(Hear(), RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param parameters = {};
    parameters.private_data = private_data.data();
    parameters.private_data_len = static_cast<uint8_t>(private_data.size());
    parameters.qp_num = qp_number;
    verbs_.CmConnect(id, &parameters);
  }
  void Ask(uint16_t port, const CmHello& hello, uint32_t qp_number) {
    std::array<std::byte, kCmHelloBytes> bytes;
    EncodeCmHello(hello, bytes.data());
    Ask(port, bytes, qp_number);
  }
  /// Waits for the next event.
  rdma_cm_event_type Hear() {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(verbs_.CmGetEvent(channel_, &event), 0);
    const rdma_cm_event_type type = event->event;
    verbs_.CmAckEvent(event);
    return type;
  }

 private:
  FakeVerbs verbs_;
  rdma_event_channel* const channel_;
  std::vector<rdma_cm_id*> ids_;
};

TEST(VerbsCm, AStrangerIsRejectedAndThePeerGetsThrough) {
  VerbsPair pair(ByCm());
  CmStranger stranger(&pair.fabric());
  pair.fabric().on_cm_event = [&](const FakeCmId&, FakeCmEvent* event) {
    const bool peers = event->data.size() >= 8 && event->data[0] == std::byte{'H'};
    return event->event == RDMA_CM_EVENT_CONNECT_REQUEST && peers ? CmFault::kHold : CmFault::kNone;
  };
  for (Rank rank : {0, 1}) ASSERT_TRUE(pair.Make(rank).ok());
  for (Rank rank : {0, 1}) pair.node(rank).Start();
  while (pair.fabric().held_cm_events() < 2) std::this_thread::yield();
  ASSERT_EQ(pair.fabric().cm_ports().size(), 1u);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 40; ++i) {
    stranger.Ask(pair.fabric().cm_ports()[0], std::as_bytes(std::span("GET / HTTP/1.0")), 0x99);
    EXPECT_EQ(stranger.Hear(), RDMA_CM_EVENT_REJECTED);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("a connection request of librdmacm while waiting for node1 ("),
                         HasSubstr(") was rejected: it does not speak our protocol")));
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 5) << "one line, not one each: " << log;
  pair.fabric().ReleaseCmEvents();
  for (Rank rank : {0, 1}) pair.node(rank).Await(Event::kConnected);
}

TEST(VerbsCm, WhatEndsAConnectionLater) {
  const std::pair<rdma_cm_event_type, const char*> kCases[] = {
      {RDMA_CM_EVENT_DISCONNECTED, "queue pair 1: the other side disconnected it"},
      {RDMA_CM_EVENT_DEVICE_REMOVAL, "queue pair 1: the device was removed"},
      {RDMA_CM_EVENT_ADDR_CHANGE, "queue pair 1: the network interface's address moved"},
  };
  for (const auto& [type, words] : kCases) {
    VerbsPair::Options options = ByCm();
    // Node 1 is disconnected before it hears why; node 0 waits for a better word than that, in vain.
    options.settings.cause_wait_ms = 50;
    VerbsPair pair(options);
    pair.Connect();
    std::vector<std::byte> place(100);
    const PlaceTag tag{.msg_id = 1};
    pair.Grant(0, 1, tag, place);
    pair.fabric().RaiseCmEvent(pair.host(0).qp_numbers().back(), type);
    EXPECT_EQ(pair.node(0).Get(Event::kGrantEnded, tag).status.code(), StatusCode::kUnavailable);
    for (Rank rank : {0, 1}) {
      pair.node(rank).Await(Event::kClosed);
      EXPECT_THAT(pair.node(rank).events(Event::kClosed)[0].status.message(), HasSubstr(words));
    }
  }
}

TEST(VerbsCm, ATimewaitThatEndsMeansNothing) {
  VerbsPair pair(ByCm());
  pair.Connect();
  pair.fabric().RaiseCmEvent(pair.host(0).qp_numbers().back(), RDMA_CM_EVENT_TIMEWAIT_EXIT);
  std::vector<std::byte> place(100);
  const std::vector<std::byte> source = Pattern(100, 1);
  pair.Transfer(1, 0, {.msg_id = 1}, source, place);
  EXPECT_TRUE(pair.node(0).events(Event::kClosed).empty());
}

TEST(VerbsCm, AReconnectTakesAnotherPortAndNonce) {
  VerbsPair pair(ByCm());
  pair.Connect();
  pair.Close(1);
  pair.node(0).Await(Event::kClosed);
  ASSERT_TRUE(pair.Make(1).ok());
  pair.node(1).Start();
  pair.node(0).Await(Event::kConnected, 2);
  pair.node(1).Await(Event::kConnected);
  EXPECT_EQ(Count(pair.host(0), "CmListen"), 2);
  std::vector<std::byte> place(100);
  const std::vector<std::byte> source = Pattern(100, 1);
  pair.Transfer(1, 0, {.msg_id = 1}, source, place);
}

/// Node 0, which listens, and a peer of rank 1 by hand.
class VerbsCmByHand : public testing::Test {
 protected:
  VerbsCmByHand() : pair_(ByCm()) {
    EXPECT_TRUE(pair_.Make(0).ok());
    idle_ = pair_.host(0).live();
    pair_.node(0).Start();
    peer_.emplace(pair_.port(0));
    peer_->ShakeHands("job 1");
    RecordKind kind = RecordKind::kHello;
    const StatusOr<VerbsSetup> setup = DecodeSetup(peer_->ReceiveRecord(&kind));
    EXPECT_TRUE(setup.ok()) << setup.status();
    if (setup.ok()) theirs_ = *setup;
  }
  void SendSetup(bool by_cm) {
    VerbsSetup setup{.epoch = 4, .control_bytes = 4096, .mtu = 3, .by_cm = by_cm, .qps = {{0x91, 1}, {0x92, 2}}};
    const Gid gid = GidOfAddress("127.0.0.1");
    std::copy(gid.begin(), gid.end(), setup.gid);
    const std::string body = EncodeSetup(setup);
    peer_->SendRecord({.kind = RecordKind::kSetup, .length = static_cast<uint32_t>(body.size())}, body);
  }
  void ExpectFailed(const std::string& why) {
    pair_.node(0).Await(Event::kConnectFailed);
    EXPECT_THAT(pair_.node(0).events()[0].status.message(), HasSubstr(why));
    EXPECT_EQ(pair_.host(0).live(), idle_);
  }

  VerbsPair pair_;
  std::optional<WirePeer> peer_;
  VerbsSetup theirs_;
  int idle_ = 0;
};

TEST_F(VerbsCmByHand, ASetupNamesPortNonceAndAddress) {
  EXPECT_TRUE(theirs_.by_cm);
  EXPECT_EQ(pair_.fabric().cm_ports(), std::vector<uint16_t>{theirs_.cm_port});
  EXPECT_NE(theirs_.cm_nonce, 0u);
  Gid address;
  std::copy(std::begin(theirs_.gid), std::end(theirs_.gid), address.begin());
  EXPECT_EQ(GidText(address), "::ffff:127.0.0.1");
}

TEST_F(VerbsCmByHand, OneThatConnectsItsQueuePairsItself) {
  SendSetup(/*by_cm=*/false);
  RecordKind kind = RecordKind::kHello;
  const std::string why = peer_->ReceiveRecord(&kind);
  EXPECT_EQ(kind, RecordKind::kUp);
  EXPECT_THAT(why, HasSubstr("only this side connects queue pairs by librdmacm (setup)"));
  peer_->SendRecord({.kind = RecordKind::kUp}, "");
  ExpectFailed("only this side connects queue pairs by librdmacm");
}

// Requests and the set-up that they belong to come over different ways.
TEST_F(VerbsCmByHand, RequestsAheadOfTheSetupWaitForIt) {
  CmStranger peer(&pair_.fabric());
  for (uint16_t index : {1, 0}) peer.Ask(theirs_.cm_port, {index, 4, theirs_.cm_nonce}, 0x91u + index);
  SendSetup(/*by_cm=*/true);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(peer.Hear(), RDMA_CM_EVENT_CONNECT_RESPONSE);
  peer_.reset();
  ExpectFailed("it closed the connection before RDMA was set up");
}

TEST_F(VerbsCmByHand, RequestsAheadOfTheSetupAreNotKeptWithoutEnd) {
  CmStranger peer(&pair_.fabric());
  for (int i = 0; i < 18; ++i) peer.Ask(theirs_.cm_port, {0, 4, theirs_.cm_nonce}, 0x91);
  EXPECT_EQ(peer.Hear(), RDMA_CM_EVENT_REJECTED) << "the last one";
  peer_.reset();
  ExpectFailed("before RDMA was set up");
}

TEST_F(VerbsCmByHand, OneThatGivesUpIsAnswered) {
  SendSetup(/*by_cm=*/true);
  const std::string why = "librdmacm, queue pair 0: there is no route";
  peer_->SendRecord({.kind = RecordKind::kUp, .length = static_cast<uint32_t>(why.size())}, why);
  RecordKind kind = RecordKind::kHello;
  EXPECT_THAT(peer_->ReceiveRecord(&kind), HasSubstr("on the other side: librdmacm, queue pair 0: there is no route"));
  EXPECT_EQ(kind, RecordKind::kUp);
  ExpectFailed("on the other side: librdmacm, queue pair 0: there is no route");
}

}  // namespace
}  // namespace hp

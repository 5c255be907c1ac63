// Copies between GPUs: which pairs, what a peer that breaks the rules costs, and failures in the middle of a copy. The
// contract's own tests (test/contract) run over copies, too.
#include "transport/copy/copy_transport.h"

#include "test/contract/copy_worlds.h"
#include "transport/inproc/inproc_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace hp {
namespace {

using testing::HasSubstr;

/// A copier that opens nothing.
class FarCopier : public FakeCopier {
 public:
  StatusOr<std::byte*> Open(std::string_view, size_t) override { return FailedPrecondition("they are on two hosts"); }
};

/// A node with a GPU and memory that is registered.
struct GpuNode {
  GpuNode(std::unique_ptr<Transport> transport, Rank rank, std::set<Rank> peers,
          std::unique_ptr<FakeCopier> gpu = std::make_unique<FakeCopier>())
      : beneath(std::move(transport)), copier(std::move(gpu)) {
    CopyOptions options;
    options.peers = std::move(peers);
    options.copier = copier.get();
    options.on_settled = [this](Rank peer, const CopyRoad& road) {
      MutexLock lock(&mutex);
      roads[peer] = road;
      changed.SignalAll();
    };
    options.on_failure = [this](const Status& status) {
      MutexLock lock(&mutex);
      failure = status;
    };
    auto made = std::make_unique<CopyTransport>(beneath.get(), options);
    copies = made.get();
    region = *made->RegisterDevice(FakeCopier::Describe(memory));
    node = std::make_unique<TestNode>(std::move(made), "job", rank);
  }
  CopyRoad RoadTo(Rank peer) {
    MutexLock lock(&mutex);
    while (!roads.contains(peer)) changed.Wait(&mutex);
    return roads[peer];
  }
  Status Failure() {
    MutexLock lock(&mutex);
    return failure;
  }
  /// Waits until the handler has been told everything that was deferred by now.
  void Flush() {
    std::promise<void> done;
    copies->Defer([&done] { done.set_value(); });
    done.get_future().wait();
  }
  TestNode* operator->() { return node.get(); }
  std::span<std::byte> Part(size_t offset, size_t bytes) { return std::span(memory).subspan(offset, bytes); }

  Mutex mutex;
  CondVar changed;
  std::map<Rank, CopyRoad> roads;
  Status failure;
  std::vector<std::byte> memory = Pattern(1 << 20, 3);
  std::unique_ptr<Transport> beneath;
  std::unique_ptr<FakeCopier> copier;
  CopyTransport* copies = nullptr;
  std::unique_ptr<TestNode> node;
  std::unique_ptr<MemoryRegion> region;  // ends ahead of the transport that it is of
};

std::string BytesOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `to` grants `place` to `from`, which writes `source`.
void Transfer(GpuNode* from, Rank from_rank, GpuNode* to, Rank to_rank, const PlaceTag& tag,
              std::span<const std::byte> source, std::span<std::byte> place) {
  ASSERT_TRUE((*to->node)->Grant(from_rank, tag, place).ok());
  const RemoteGrant grant = (*from)->Get(Event::kGranted, tag).grant;
  ASSERT_TRUE((*from->node)->Write(to_rank, tag, grant, source).ok());
}

TEST(CopyTransport, AsksOnceOpensOnceAndClosesBeforeTheEnd) {
  InprocNetwork world({.world_size = 2});
  GpuNode zero(world.Create(0), 0, {1}), one(world.Create(1), 1, {0}, std::make_unique<FakeCopier>("cuda:7"));
  zero->Start();
  one->Start();
  EXPECT_TRUE(zero.RoadTo(1).why_not.ok()) << zero.RoadTo(1).why_not;
  EXPECT_EQ(zero.RoadTo(1).peer_device, "cuda:7");
  EXPECT_TRUE(one.RoadTo(0).why_not.ok());
  EXPECT_EQ(one.RoadTo(0).peer_device, "host");
  const size_t probe = one.copier->copied();
  for (uint64_t id = 0; id < 3; ++id) {
    const PlaceTag tag{.msg_id = id, .channel = 5};
    std::memset(one.Part(id * 1000, 900).data(), 0, 900);
    Transfer(&zero, 0, &one, 1, tag, zero.Part(id * 1000, 900), one.Part(id * 1000, 900));
    EXPECT_TRUE(one->Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(zero->Get(Event::kWriteEnded, tag).status.ok());
  }
  EXPECT_EQ(one.memory, zero.memory);
  EXPECT_EQ(zero.copier->copied(), kCopyProbeBytes + 3 * 900);
  EXPECT_EQ(zero.copier->opened(), 2) << "the probe, and one's memory once";
  EXPECT_EQ(zero.copier->open(), 1);
  EXPECT_EQ(one.copier->copied(), probe);
  // Memory that was not registered goes beneath.
  std::vector<std::byte> place(100);
  Transfer(&zero, 0, &one, 1, {.msg_id = 9}, zero.Part(0, 100), place);
  EXPECT_TRUE(one->Get(Event::kGrantEnded, {.msg_id = 9}).status.ok());
  EXPECT_TRUE(Same(place, zero.Part(0, 100)));
  EXPECT_EQ(zero.copier->copied(), kCopyProbeBytes + 3 * 900);

  EXPECT_EQ((*zero.node)->Send(1, kFirstCopyMessage, {}).code(), StatusCode::kInvalidArgument);
  // When one's END has come, zero holds nothing of it open any more, and the other way round.
  one->ReactBy([&](const Event& event) {
    if (event.kind == Event::kClosed) {
      EXPECT_EQ(zero.copier->open(), 0);
    }
  });
  (*zero.node)->Shutdown(1);
  (*one.node)->Shutdown(0);
  one->Await(Event::kClosed);
  zero->Await(Event::kClosed);
  EXPECT_EQ(one->events().back().status.code(), StatusCode::kCancelled);
}

TEST(CopyTransport, PairsThatDoNotReachEachOtherStayBeneath) {
  InprocNetwork world({.world_size = 2});
  // Only one of them fails: neither copies.
  GpuNode zero(world.Create(0), 0, {1}), one(world.Create(1), 1, {0}, std::make_unique<FarCopier>());
  zero->Start();
  one->Start();
  EXPECT_EQ(zero.RoadTo(1).why_not.message(), "they are on two hosts");
  EXPECT_EQ(one.RoadTo(0).why_not.message(), "they are on two hosts");
  EXPECT_FALSE(zero.copies->Copies(1));
  for (auto [from, to, from_rank] : {std::tuple(&zero, &one, 0), std::tuple(&one, &zero, 1)}) {
    const PlaceTag tag{.msg_id = static_cast<uint64_t>(from_rank)};
    std::memset(to->Part(0, 500).data(), 0, 500);
    Transfer(from, from_rank, to, 1 - from_rank, tag, from->Part(1000, 500), to->Part(0, 500));
    EXPECT_TRUE((*to)->Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(Same(to->Part(0, 500), from->Part(1000, 500)));
  }
  EXPECT_EQ(zero.copier->copied(), kCopyProbeBytes);
  EXPECT_EQ(one.copier->copied(), 0u);
}

/// A node with a GPU, a peer that speaks for itself, and a third node that must not notice.
class CopyRules : public testing::Test {
 protected:
  CopyRules()
      : node_(world_.Create(0), 0, {1, 2}), peer_(world_.Create(1), "job", 1), third_(world_.Create(2), 2, {0}) {
    node_->Start();
    peer_.Start();
    third_->Start();
    peer_.AwaitFrom(Event::kConnected, 0);
    EXPECT_TRUE(third_.RoadTo(0).why_not.ok());
    EXPECT_TRUE(node_.RoadTo(2).why_not.ok());
  }
  void Say(CopyMessage type, const std::vector<std::byte>& body) {
    ASSERT_TRUE(peer_->Send(0, static_cast<uint32_t>(type), body).ok());
  }
  CopyOffer Offer(const std::string& handle) { return {"cuda:3", handle, ""}; }
  /// The peer's memory, in which it grants the first 100 bytes.
  std::string Handle() { return *FakeCopier::Describe(memory_).export_handle(); }
  void Agree() {
    Say(CopyMessage::kOffer, Encode(Offer(Handle())));
    Say(CopyMessage::kAnswer, {});
    ASSERT_TRUE(node_.RoadTo(1).why_not.ok()) << node_.RoadTo(1).why_not;
  }
  CopyGrant AGrant() { return {{3, 1}, {.msg_id = 8, .channel = 2}, 5, 0, 100}; }
  Status ExpectClosed() {
    node_->AwaitFrom(Event::kClosed, 1);
    const Event closed = node_->events().back();
    EXPECT_EQ(closed.status.code(), StatusCode::kUnavailable);
    peer_.AwaitFrom(Event::kClosed, 0);
    return closed.status;
  }
  void ExpectBroken(const std::string& rule) {
    EXPECT_THAT(ExpectClosed().message(), HasSubstr("protocol error: " + rule));
  }
  /// The other connection goes on.
  void TearDown() override {
    const PlaceTag tag{.msg_id = 99};
    Transfer(&node_, 0, &third_, 2, tag, node_.Part(0, 300), third_.Part(0, 300));
    EXPECT_TRUE(third_->Get(Event::kGrantEnded, tag).status.ok());
    EXPECT_TRUE(third_->events(Event::kClosed).empty());
  }

  InprocNetwork world_{{.world_size = 3}};
  std::vector<std::byte> memory_ = std::vector<std::byte>(4096);
  GpuNode node_;
  TestNode peer_;
  GpuNode third_;
};

TEST_F(CopyRules, APeerByTheRulesIsWrittenTo) {
  Agree();
  Say(CopyMessage::kRegion, Encode(CopyRegion{5, memory_.size(), Handle()}));
  Say(CopyMessage::kGrant, Encode(AGrant()));
  const Event granted = node_->Get(Event::kGranted, AGrant().tag);
  EXPECT_EQ(granted.bytes, 100u);
  EXPECT_EQ((*node_.node)->Write(1, granted.tag, granted.grant, std::span(memory_).first(100)).code(),
            StatusCode::kInvalidArgument)
      << "not from the GPU's memory";
  ASSERT_TRUE((*node_.node)->Write(1, granted.tag, granted.grant, node_.Part(0, 100)).ok());
  peer_.Await([](const Event& event) {
    return event.kind == Event::kMessage && event.type == static_cast<uint32_t>(CopyMessage::kArrived);
  });
  EXPECT_EQ(peer_.events(Event::kMessage).back().body, BytesOf(Encode(RemoteGrant{3, 1})));
  EXPECT_TRUE(Same(std::span(memory_).first(100), node_.Part(0, 100)));
  Say(CopyMessage::kCancel, Encode(RemoteGrant{0, 1}));
  ExpectBroken("an end of grant 0.1, not open");
}

TEST_F(CopyRules, AnOfferThatCantBeOpenedOnlyKeepsThePairApart) {
  Say(CopyMessage::kOffer, Encode(Offer("rubbish")));
  Say(CopyMessage::kAnswer, {});
  EXPECT_EQ(node_.RoadTo(1).why_not.message(), "a handle of 7 bytes");
  peer_.Await(Event::kMessage, 2);
  EXPECT_EQ(peer_.events(Event::kMessage).back().body, "a handle of 7 bytes");
  EXPECT_TRUE(node_->events(Event::kClosed).empty());
}

TEST_F(CopyRules, ARegionThatCantBeOpenedCostsTheConnection) {
  Agree();
  Say(CopyMessage::kRegion, Encode(CopyRegion{5, memory_.size(), "stranger"}));
  Say(CopyMessage::kGrant, Encode(AGrant()));
  const Event granted = node_->Get(Event::kGranted, AGrant().tag);
  ASSERT_TRUE((*node_.node)->Grant(1, {.msg_id = 1}, node_.Part(0, 10)).ok());
  ASSERT_TRUE((*node_.node)->Write(1, granted.tag, granted.grant, node_.Part(0, 100)).ok());
  EXPECT_THAT(ExpectClosed().message(), HasSubstr("a copy within the host: a handle of 8 bytes"));
  EXPECT_EQ(node_->events(Event::kWriteEnded).size(), 1u);
  EXPECT_FALSE(node_->events(Event::kWriteEnded)[0].status.ok());
  EXPECT_EQ(node_->events(Event::kGrantEnded).size(), 1u);
  EXPECT_TRUE(node_.Failure().ok()) << "it is not our GPU's fault";
}

TEST_F(CopyRules, ATruncatedMessageCostsTheConnection) {
  Say(CopyMessage::kOffer, {std::byte{9}});
  ExpectBroken("an OFFER is too short");
}

TEST_F(CopyRules, AnOfferComesOnce) {
  Agree();
  Say(CopyMessage::kOffer, Encode(Offer(Handle())));
  ExpectBroken("a second OFFER");
}

TEST_F(CopyRules, NothingIsGrantedWithoutAgreement) {
  Say(CopyMessage::kRegion, Encode(CopyRegion{5, memory_.size(), Handle()}));
  ExpectBroken("message type 0x80000002 without an agreement to copy");
}

TEST_F(CopyRules, AGrantLiesInARegion) {
  Agree();
  Say(CopyMessage::kGrant, Encode(AGrant()));
  ExpectBroken("a grant in region 5, which was not announced");
}

TEST_F(CopyRules, AGrantLiesWithinItsRegion) {
  Agree();
  Say(CopyMessage::kRegion, Encode(CopyRegion{5, 100, Handle()}));
  CopyGrant grant = AGrant();
  grant.offset = UINT64_MAX - 50;
  Say(CopyMessage::kGrant, Encode(grant));
  ExpectBroken("a grant of 100 bytes at 18446744073709551565 of a region of 100");
}

TEST_F(CopyRules, AGrantIsGivenOnce) {
  Agree();
  Say(CopyMessage::kRegion, Encode(CopyRegion{5, 100, Handle()}));
  Say(CopyMessage::kGrant, Encode(AGrant()));
  Say(CopyMessage::kGrant, Encode(AGrant()));
  ExpectBroken("grant 3 is open and was given again");
}

TEST_F(CopyRules, AnUnknownTypeCostsTheConnection) {
  Agree();
  Say(static_cast<CopyMessage>(kFirstCopyMessage + 77), {});
  ExpectBroken("unknown message type 0x8000004d");
}

/// Two nodes, of which zero has a write to one under way that does not end, and a grant that one never uses.
class CopyFailure : public testing::Test {
 protected:
  CopyFailure() : zero_(world_.Create(0), 0, {1}), one_(world_.Create(1), 1, {0}) {
    zero_->Start();
    one_->Start();
    EXPECT_TRUE(zero_.RoadTo(1).why_not.ok());
    EXPECT_TRUE(one_.RoadTo(0).why_not.ok());
    zero_.copier->Hold();
    EXPECT_TRUE((*zero_.node)->Grant(1, {.msg_id = 7}, zero_.Part(0, 10)).ok());
    for (uint64_t id : {0, 1}) Transfer(&zero_, 0, &one_, 1, {.msg_id = id}, zero_.Part(0, 999), one_.Part(0, 999));
    zero_.copier->AwaitHeld();
  }
  void ExpectAllEndedOnce() {
    zero_->Await(Event::kClosed);
    EXPECT_EQ(zero_->events(Event::kWriteEnded).size(), 2u);
    EXPECT_EQ(zero_->events(Event::kGrantEnded).size(), 1u);
    EXPECT_EQ(zero_->events().back().kind, Event::kClosed);
    EXPECT_EQ(zero_->events().back().status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(zero_.copier->open(), 0);
  }

  InprocNetwork world_{{.world_size = 2}};
  GpuNode zero_, one_;
};

TEST_F(CopyFailure, APeerThatIsLostWaitsForTheCopyUnderWay) {
  const size_t copied = zero_.copier->copied();
  (*one_.node)->Stop();
  // Until the connection beneath is gone: from then on nothing keeps the report back but the copy.
  while ((*zero_.node)->Send(1, 0, {}).ok()) std::this_thread::yield();
  zero_.Flush();
  EXPECT_TRUE(zero_->events(Event::kWriteEnded).empty());
  EXPECT_TRUE(zero_->events(Event::kGrantEnded).empty());
  EXPECT_TRUE(zero_->events(Event::kClosed).empty());
  EXPECT_EQ((*zero_.node)->Grant(1, {.msg_id = 8}, zero_.Part(0, 10)).code(), StatusCode::kUnavailable);
  zero_.copier->Release();
  ExpectAllEndedOnce();
  EXPECT_GE(zero_.copier->copied(), copied + 999);
}

TEST_F(CopyFailure, ACopyThatFailsEndsTheConnectionAndIsSaid) {
  zero_.copier->Fail(InternalError("the GPU fell off the bus"));
  zero_.copier->Release();
  ExpectAllEndedOnce();
  EXPECT_EQ(zero_->events(Event::kWriteEnded)[0].status.code(), StatusCode::kInternal);
  EXPECT_EQ(zero_.Failure().message(), "the GPU fell off the bus");
  one_->Await(Event::kClosed);
  EXPECT_EQ(one_->events(Event::kGrantEnded).size(), 2u);
  for (const Event& event : one_->events(Event::kGrantEnded)) EXPECT_FALSE(event.status.ok());
}

}  // namespace
}  // namespace hp

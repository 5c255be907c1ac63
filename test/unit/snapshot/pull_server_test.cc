#include "snapshot/pull_server.h"

#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"
#include "snapshot/pulled_blobs.h"
#include "test/unit/snapshot/snapshot_job.h"
#include "transport/partial_transport.h"

#include "gtest/gtest.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <set>

namespace hp::test {
namespace {

/// Sends chunks to nobody. What `while_sending` does happens before a chunk is counted as sent.
class SlowTransport : public PartialTransport {
 public:
  Status Send(Rank, uint32_t, std::span<const std::byte> bytes) override {
    while_sending();
    EXPECT_TRUE(chunks.emplace_back().ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    return OkStatus();
  }
  void Break(Rank, const Status&) override { ++breaks; }

  std::function<void()> while_sending = [] {};
  std::vector<PullChunk> chunks;
  int breaks = 0;
};

class PullServerTest : public testing::Test {
 protected:
  PullServerTest() {
    for (Rank client = a_; client <= newcomer_; ++client) server_.OnConnected(client);
  }
  /// A model with one large parameter, in columns, and a bias in rows.
  std::shared_ptr<const GatheredModel> Model(int64_t iteration) {
    auto model = GatheredModel::Create(params_, iteration, false).value();
    for (size_t p = 0; p < params_.size(); ++p) {
      for (size_t s = 0; s < params_[p].slices.size(); ++s) {
        CutBlock(Whole(p, iteration), params_[p].whole.whole, params_[p].slices[s].block, model->Place(p, s, 0));
      }
    }
    return model;
  }
  std::vector<float> Whole(size_t param, int64_t iteration) const {
    std::vector<float> values(params_[param].whole.whole.count());
    std::iota(values.begin(), values.end(), static_cast<float>(iteration * 1000));
    return values;
  }
  /// As many clients as there may be models, each with the first chunk of another one.
  void Fill() {
    for (Rank client = a_; client < newcomer_; ++client) {
      server_.OnRequest(client);
      ASSERT_TRUE(server_.TakeRequest());
      const auto model = Model(client - a_);
      if (client == a_) first_ = model;
      server_.OnGathered(model);
      EXPECT_EQ(Chunks(client).size(), 1u);
    }
  }
  /// What was sent to `client` since the last time.
  std::vector<PullChunk> Chunks(Rank client) {
    std::vector<PullChunk> chunks;
    for (const Wire::Message& message : wire_.TakeSent(0, client)) {
      EXPECT_EQ(message.type, kPullChunk);
      EXPECT_LE(message.bytes.size(), kMaxMessageBytes);
      EXPECT_TRUE(chunks.emplace_back().ParseFromString(message.bytes));
    }
    return chunks;
  }
  /// Asks for chunk after chunk. @return the parameters put together.
  std::vector<std::vector<float>> PullAll(Rank client) {
    std::vector<std::vector<float>> values;
    for (const WholeParam& param : params_) values.emplace_back(param.whole.whole.count());
    for (std::vector<PullChunk> chunks = Chunks(client);; chunks = Chunks(client)) {
      EXPECT_EQ(chunks.size(), 1u) << "one for each request";
      if (chunks.size() != 1) return {};
      const PullChunk& chunk = chunks[0];
      std::memcpy(values[chunk.blob()].data() + chunk.offset(), chunk.data().data(), chunk.data().size());
      if (chunk.last()) return values;
      server_.OnRequest(client);
    }
  }

  const std::vector<WholeParam> params_ = {
      {{.layer = "fc", .blob = 0, .whole = {500, 700}}, {{0, {0, 500, 0, 333}}, {1, {0, 500, 333, 700}}}},
      {{.layer = "fc", .blob = 1, .whole = {500}}, {{0, {0, 1, 0, 1}}, {1, {1, 500, 0, 1}}}}};
  Wire wire_{1};
  FakeClock clock_;
  std::weak_ptr<const GatheredModel> first_;  // a_'s
  PullServer server_{wire_.transport(0), &clock_};
  const Rank a_ = kFirstClientRank, b_ = a_ + 1, newcomer_ = a_ + PullServer::kMaxModels;
};

TEST_F(PullServerTest, SendsTheWholeOfWhatIsHeldInBlocks) {
  EXPECT_FALSE(server_.TakeRequest());
  server_.OnRequest(a_);
  EXPECT_TRUE(server_.TakeRequest());
  EXPECT_FALSE(server_.TakeRequest()) << "one request for each copy";
  server_.OnGathered(Model(3));
  const auto pulled = PullAll(a_);
  ASSERT_EQ(pulled.size(), 2u);
  EXPECT_EQ(pulled[0], Whole(0, 3));
  EXPECT_EQ(pulled[1], Whole(1, 3));
  EXPECT_FALSE(server_.TakeRequest());
}

TEST(PullServer, SharedParametersComeUnderEachName) {
  const std::vector<WholeParam> params = {
      {{.layer = "ip", .blob = 0, .whole = {2, 3}}, {{0, {0, 2, 0, 3}}}, {{"ip_p", 0, {3, 2}}, {"ip_q", 1, {6}}}},
      {{.layer = "fc", .blob = 0, .whole = {2}}, {{0, {0, 2, 0, 1}}}}};
  const auto made = GatheredModel::Create(params, 5, false);
  ASSERT_TRUE(made.ok()) << made.status();
  std::iota((*made)->Place(0, 0, 0).begin(), (*made)->Place(0, 0, 0).end(), 1.0f);
  Wire wire{1};
  FakeClock clock;
  PullServer server(wire.transport(0), &clock);
  server.OnConnected(kFirstClientRank);
  server.OnRequest(kFirstClientRank);
  ASSERT_TRUE(server.TakeRequest());
  server.OnGathered(*made);
  PulledBlobs pulled(1 << 20);
  int chunks = 0;
  for (bool last = false; !last; ++chunks) {
    const auto messages = wire.TakeSent(0, kFirstClientRank);
    ASSERT_EQ(messages.size(), 1u);
    PullChunk chunk;
    ASSERT_TRUE(chunk.ParseFromString(messages[0].bytes));
    ASSERT_TRUE(pulled.Take(chunk).ok());
    last = chunk.last();
    if (!last) server.OnRequest(kFirstClientRank);
  }
  EXPECT_EQ(chunks, 4);
  const auto blobs = pulled.Finish();
  ASSERT_TRUE(blobs.ok()) << blobs.status();
  EXPECT_EQ(blobs->at({"ip_p", 0}).shape, (Shape{3, 2}));
  EXPECT_EQ(blobs->at({"ip_p", 0}).data, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(blobs->at({"ip_q", 1}).data, blobs->at({"ip", 0}).data);
  EXPECT_EQ(blobs->count({"fc", 0}), 1u);
}

TEST_F(PullServerTest, WhoComesLaterGetsTheNextCopy) {
  server_.OnRequest(a_);
  ASSERT_TRUE(server_.TakeRequest());
  server_.OnRequest(b_);
  EXPECT_FALSE(server_.TakeRequest()) << "a's is under way";
  server_.OnGathered(Model(1));
  EXPECT_EQ(Chunks(a_).size(), 1u);
  EXPECT_TRUE(Chunks(b_).empty());
  EXPECT_TRUE(server_.TakeRequest());
  server_.OnGathered(Model(2));
  EXPECT_EQ(PullAll(b_)[1], Whole(1, 2));
  server_.OnRequest(a_);
  EXPECT_EQ(PullAll(a_)[1], Whole(1, 1));
}

TEST_F(PullServerTest, HoldsAFewModelsAndNoMore) {
  Fill();
  server_.OnRequest(newcomer_);
  EXPECT_FALSE(server_.TakeRequest());
  EXPECT_FALSE(first_.expired());
  server_.OnRequest(a_);
  EXPECT_EQ(PullAll(a_).size(), 2u);
  EXPECT_TRUE(first_.expired());
  EXPECT_TRUE(server_.TakeRequest());
  server_.OnGathered(Model(9));
  EXPECT_EQ(PullAll(newcomer_)[1], Whole(1, 9));
}

TEST_F(PullServerTest, AClientThatIsSilentLosesItsConnection) {
  Fill();
  clock_.Advance(PullServer::kIdleNs);
  server_.OnRequest(b_);  // slow, not silent
  server_.OnRequest(newcomer_);
  EXPECT_FALSE(server_.TakeRequest());
  EXPECT_TRUE(wire_.broken(0).empty());
  clock_.Advance(1);
  EXPECT_TRUE(server_.TakeRequest());
  EXPECT_EQ(wire_.broken(0), std::set<Rank>{a_});
  EXPECT_TRUE(first_.expired());
  server_.OnRequest(a_);  // was on its way
  server_.OnGathered(Model(12));
  EXPECT_TRUE(Chunks(a_).empty());
  EXPECT_EQ(PullAll(newcomer_)[1], Whole(1, 12));
  EXPECT_EQ(PullAll(b_).size(), 2u);
  clock_.Advance(PullServer::kIdleNs + 1);
  EXPECT_FALSE(server_.TakeRequest());
  EXPECT_EQ(wire_.broken(0), (std::set<Rank>{a_, b_, newcomer_})) << "nobody keeps a connection for nothing";
}

TEST_F(PullServerTest, AClientThatWaitsIsNotSilentAndMayNotAskAgain) {
  server_.OnRequest(a_);
  clock_.Advance(10 * PullServer::kIdleNs);
  EXPECT_TRUE(server_.TakeRequest());
  EXPECT_FALSE(wire_.broken(0).contains(a_)) << "an iteration may be long";
  server_.OnRequest(a_);
  EXPECT_TRUE(wire_.broken(0).contains(a_));
}

TEST_F(PullServerTest, AClientThatGoesLeavesNothing) {
  server_.OnRequest(a_);
  ASSERT_TRUE(server_.TakeRequest());
  server_.OnGone(a_);
  std::weak_ptr<const GatheredModel> model;
  {
    const auto gathered = Model(1);
    model = gathered;
    server_.OnGathered(gathered);
  }
  EXPECT_TRUE(model.expired());
  EXPECT_FALSE(server_.TakeRequest());
}

TEST_F(PullServerTest, OthersNeedNotWaitWhileAChunkIsSent) {
  SlowTransport transport;
  PullServer server(&transport, &clock_);
  server.OnConnected(a_);
  server.OnRequest(a_);
  ASSERT_TRUE(server.TakeRequest());
  int served = 0;
  transport.while_sending = [&] {
    server.OnConnected(b_);
    EXPECT_FALSE(server.TakeRequest());
    ++served;
  };
  server.OnGathered(Model(1));
  EXPECT_EQ(served, 1);
}

TEST_F(PullServerTest, ChunksGoInOrderWhoeverSendsThem) {
  SlowTransport transport;
  PullServer server(&transport, &clock_);
  server.OnConnected(a_);
  server.OnRequest(a_);
  ASSERT_TRUE(server.TakeRequest());
  transport.while_sending = [&] {
    if (transport.chunks.size() < 2) server.OnRequest(a_);  // on the progress thread, which does not wait for this one
  };
  server.OnGathered(Model(1));
  ASSERT_EQ(transport.chunks.size(), 3u);
  EXPECT_EQ(transport.chunks[0].offset(), 0);
  EXPECT_EQ(transport.chunks[1].offset(), 192 << 10);
  EXPECT_EQ(transport.chunks[2].blob(), 1);
  EXPECT_TRUE(transport.chunks[2].last());
  EXPECT_EQ(transport.breaks, 0);
  transport.while_sending = [] {};
  server.OnRequest(a_);
  EXPECT_TRUE(server.TakeRequest()) << "a new copy";
  server.OnRequest(a_);
  EXPECT_EQ(transport.breaks, 1) << "it waits";
}

}  // namespace
}  // namespace hp::test

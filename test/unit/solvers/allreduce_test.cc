// Whole jobs of replicas in one thread, whose links deliver what is under way in random orders.
#include "base/bfloat16.h"
#include "solvers/exchange/direct_allreduce.h"
#include "solvers/exchange/ring.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace hp {
namespace {

using Values = std::vector<float>;

constexpr size_t kBucketBytes = 64, kChunkBytes = 12;

/// What one replica posts; the job decides when it happens.
class ScriptedLinks : public PeerLinks {
 public:
  struct Posted {
    int peer = 0;
    LinkPlace place;
    std::span<std::byte> memory;        // of a grant
    std::span<const std::byte> source;  // of a write
    LinkGrant grant = {};               // of a write
  };
  using Sink = std::function<Status(const Posted&, bool write)>;
  explicit ScriptedLinks(Sink sink) : sink_(std::move(sink)) {}

  void Begin(PeerEvents*) override {}
  StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte>) override {
    return std::shared_ptr<const void>();
  }
  Status Grant(int peer, const LinkPlace& place, std::span<std::byte> memory) override {
    return sink_({peer, place, memory, {}}, false);
  }
  Status Write(int peer, const LinkPlace& place, const LinkGrant& grant, std::span<const std::byte> source) override {
    return sink_({peer, place, {}, source, grant}, true);
  }

 private:
  const Sink sink_;
};

/// How replicas sum: round a ring; or as DirectPlan says, rounding to bfloat16 all but what is exact.
enum class Way { kRing, kDirect };

/// Where replicas are: DirectPlan's host_of. Empty: apart.
using HostsOf = std::vector<int>;

/// A job of replicas that sum `counts` in each of `clocks` updates. All that is under way is in `pending_`; a step
/// delivers one of it, or starts the next collective of a replica.
class Job {
 public:
  Job(Way way, int size, std::vector<size_t> counts, int clocks, unsigned seed, std::vector<bool> exact = {},
      HostsOf hosts = {})
      : clocks_(clocks), hosts_(std::move(hosts)), random_(seed) {
    for (int rank = 0; rank < size; ++rank) {
      const BlockPlan::Options options{.rank = rank,
                                       .size = size,
                                       .counts = counts,
                                       .exact = exact,
                                       .bucket_bytes = kBucketBytes,
                                       .min_chunk_bytes = kChunkBytes,
                                       .max_chunk_bytes = kChunkBytes};
      auto replica = std::make_unique<Replica>();
      replica->links = std::make_unique<ScriptedLinks>([this, rank](const ScriptedLinks::Posted& posted, bool write) {
        if (posts_++ == fail_at_) return Unavailable("link");
        return write ? OnWrite(rank, posted) : OnGrant(rank, posted);
      });
      const auto on_done = [this, rank](uint64_t clock, int collective) {
        EXPECT_TRUE(replicas_[rank]->done.insert({clock, collective}).second) << "reported twice";
      };
      if (way == Way::kRing) {
        const RingPlan plan(options);
        replica->expected[plan.right()] = plan.SentBytes();
        replica->sums = *Ring::Create(plan, replica->links.get(), on_done);
      } else {
        const DirectPlan plan(options, hosts_);
        for (int peer = 0; peer < size; ++peer) {
          if (peer != rank) replica->expected[peer] = plan.BytesFrom(peer);
        }
        replica->sums = *DirectAllreduce::Create(plan, replica->links.get(), on_done);
      }
      replicas_.push_back(std::move(replica));
    }
  }
  /// The `post`-th post of all replicas fails.
  void FailAt(int post) { fail_at_ = post; }

  /// Runs until nothing is left to do. @return the first error of a replica.
  Status Run() {
    for (;;) {
      std::vector<std::function<Status()>> next;
      for (size_t rank = 0; rank < replicas_.size(); ++rank) {
        if (CanStart(rank)) next.push_back([this, rank] { return StartNext(rank); });
      }
      const size_t choices = next.size() + pending_.size();
      if (choices == 0) return OkStatus();
      const size_t choice = random_() % choices;
      if (choice < next.size()) {
        HP_RETURN_IF_ERROR(next[choice]());
        continue;
      }
      const auto event = pending_.begin() + static_cast<ptrdiff_t>(choice - next.size());
      const std::function<Status()> deliver = std::move(*event);
      pending_.erase(event);
      HP_RETURN_IF_ERROR(deliver());
    }
  }

  int posts() const { return posts_; }
  /// The values of a collective after update `clock` on a replica; before it, what each replica adds is InputOf.
  const Values& result(int rank, int clock, int collective) const { return replicas_[rank]->values[clock][collective]; }
  bool AllDone() const {
    return std::all_of(replicas_.begin(), replicas_.end(), [&](const auto& replica) {
      return replica->done.size() == clocks_ * replica->plan().collectives().size() && replica->sums->under_way() == 0;
    });
  }
  static Values InputOf(int rank, int clock, int collective, size_t count) {
    std::mt19937 random(7919 * rank + 31 * clock + collective);
    std::normal_distribution<float> normal;
    Values values(count);
    for (float& value : values) value = normal(random);
    return values;
  }
  const BlockPlan& plan() const { return replicas_[0]->plan(); }
  /// Bytes that replica 0 has sent; that all have sent to other hosts.
  size_t sent() const { return replicas_[0]->sent; }
  size_t sent_abroad() const { return sent_abroad_; }
  size_t most_writes() const { return most_writes_; }

 private:
  /// With whom, and what.
  using Key = std::pair<int, LinkPlace>;
  struct Replica {
    const BlockPlan& plan() const { return sums->plan(); }
    std::map<int, std::vector<size_t>> expected;  // by peer to which it writes: bytes of the places
    std::unique_ptr<ScriptedLinks> links;
    std::unique_ptr<Allreduce> sums;
    std::vector<std::vector<Values>> values;  // by clock and collective
    std::set<std::pair<uint64_t, int>> done;
    size_t started = 0, sent = 0;
    std::map<Key, std::span<std::byte>> places;         // granted
    std::map<Key, std::span<const std::byte>> sources;  // of writes that have not ended
  };

  // The next update begins when all sums of the one before are there.
  bool CanStart(size_t rank) const {
    const Replica& replica = *replicas_[rank];
    const size_t collectives = replica.plan().collectives().size();
    if (replica.started == clocks_ * collectives || replica.sums->under_way() == Allreduce::kUnderWay) return false;
    return replica.started % collectives != 0 || replica.done.size() == replica.started;
  }
  Status StartNext(size_t rank) {
    Replica& replica = *replicas_[rank];
    const size_t collectives = replica.plan().collectives().size();
    const int clock = static_cast<int>(replica.started / collectives);
    const int collective = static_cast<int>(replica.started++ % collectives);
    replica.values.resize(clock + 1);
    replica.values[clock].resize(collectives);
    Values& values = replica.values[clock][collective];
    values = InputOf(static_cast<int>(rank), clock, collective, replica.plan().collectives()[collective].count);
    return replica.sums->Start(clock, collective, values);
  }

  // Places are what the peer expects, each once.
  Status OnGrant(int rank, const ScriptedLinks::Posted& posted) {
    Replica& peer = *replicas_[posted.peer];
    EXPECT_EQ(peer.expected.at(rank).at(posted.place.number), posted.memory.size());
    EXPECT_TRUE(replicas_[rank]->places.emplace(Key{posted.peer, posted.place}, posted.memory).second)
        << "granted twice";
    for (const auto& [key, source] : replicas_[rank]->sources) {
      const bool apart = source.data() + source.size() <= posted.memory.data() ||
                         posted.memory.data() + posted.memory.size() <= source.data();
      EXPECT_TRUE(apart) << "granted while it is being sent";
    }
    const LinkGrant grant{posted.place.number, static_cast<uint32_t>(posted.place.clock)};
    pending_.push_back([&peer, rank, posted, grant] { return peer.sums->OnGranted(rank, posted.place, grant); });
    return OkStatus();
  }
  // The source is read when the bytes land, as late as a transport may. That they have landed, and that the source is
  // free, is told in any order.
  Status OnWrite(int rank, const ScriptedLinks::Posted& posted) {
    Replica &writer = *replicas_[rank], &peer = *replicas_[posted.peer];
    EXPECT_EQ(posted.grant.index, posted.place.number);
    EXPECT_EQ(posted.grant.generation, posted.place.clock);
    writer.sources[{posted.peer, posted.place}] = posted.source;
    writer.sent += posted.source.size();
    if (hosts_.empty() || hosts_[rank] != hosts_[posted.peer]) sent_abroad_ += posted.source.size();
    most_writes_ = std::max(most_writes_, writer.sources.size());
    pending_.push_back([this, rank, &writer, &peer, posted] {
      const std::span<std::byte> place = peer.places.at({rank, posted.place});
      EXPECT_EQ(place.size(), posted.source.size());
      std::copy(posted.source.begin(), posted.source.end(), place.begin());
      pending_.push_back([rank, &peer, posted] { return peer.sums->OnArrived(rank, posted.place); });
      pending_.push_back([&writer, posted] {
        writer.sources.erase({posted.peer, posted.place});
        return writer.sums->OnWritten(posted.peer, posted.place);
      });
      return OkStatus();
    });
    return OkStatus();
  }

  const size_t clocks_;
  const HostsOf hosts_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::function<Status()>> pending_;
  size_t most_writes_ = 0, sent_abroad_ = 0;
  int posts_ = 0, fail_at_ = -1;
};

/// Round a ring block b is added in the order b, b + 1, ..., of the replicas; directly all is, in the order of
/// replicas, and rounded before and after, unless it is exact.
Values SumOf(Way way, bool exact, int size, int clock, int collective, size_t count) {
  const auto rounded = [&](float value) {
    return way == Way::kRing || exact ? value : FromBFloat16(ToBFloat16(value));
  };
  std::vector<Values> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(Job::InputOf(rank, clock, collective, count));
  Values sum(count);
  for (int block = 0; block < size; ++block) {
    const size_t begin = count * block / size, end = count * (block + 1) / size;
    const int first = way == Way::kRing ? block : 0;
    for (size_t i = begin; i < end; ++i) {
      sum[i] = rounded(inputs[first][i]);
      for (int next = 1; next < size; ++next) sum[i] += rounded(inputs[(first + next) % size][i]);
      if (size > 1) sum[i] = rounded(sum[i]);
    }
  }
  return size > 1 ? sum : inputs[0];
}

/// The sums of hosts, in the order of their first replicas; each of its replicas' in their order.
Values SumOfHosts(bool exact, const HostsOf& hosts, int clock, int collective, size_t count) {
  const auto rounded = [&](float value) { return exact ? value : FromBFloat16(ToBFloat16(value)); };
  Values sum(count);
  std::set<int> seen;
  for (size_t first = 0; first < hosts.size(); ++first) {
    if (!seen.insert(hosts[first]).second) continue;
    Values of_host = Job::InputOf(static_cast<int>(first), clock, collective, count);
    for (size_t other = first + 1; other < hosts.size(); ++other) {
      if (hosts[other] != hosts[first]) continue;
      const Values input = Job::InputOf(static_cast<int>(other), clock, collective, count);
      for (size_t i = 0; i < count; ++i) of_host[i] += input[i];
    }
    for (size_t i = 0; i < count; ++i) sum[i] = first == 0 ? rounded(of_host[i]) : sum[i] + rounded(of_host[i]);
  }
  for (float& value : sum) value = rounded(value);
  return sum;
}

void ExpectSums(const Job& job, Way way, int size, int clocks, const HostsOf& hosts = {}) {
  for (int clock = 0; clock < clocks; ++clock) {
    for (size_t c = 0; c < job.plan().collectives().size(); ++c) {
      const int collective = static_cast<int>(c);
      const auto& plan = job.plan().collectives()[c];
      const Values expected = hosts.empty() ? SumOf(way, plan.exact, size, clock, collective, plan.count)
                                            : SumOfHosts(plan.exact, hosts, clock, collective, plan.count);
      for (int rank = 0; rank < size; ++rank) {
        const Values& found = job.result(rank, clock, collective);
        ASSERT_EQ(found.size(), plan.count);
        if (plan.count == 0) continue;
        EXPECT_EQ(0, std::memcmp(found.data(), expected.data(), plan.count * sizeof(float)))
            << "replica " << rank << ", clock " << clock << ", collective " << c;
      }
    }
  }
}

const std::vector<size_t> kMixedCounts = {40, 1, 250, 3, 0, 16, 95, 7};

class AllreduceTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, AllreduceTest, testing::Values(Way::kRing, Way::kDirect),
                         [](const auto& info) { return info.param == Way::kRing ? "Ring" : "Direct"; });

TEST_P(AllreduceTest, SumsInTheOrderOfThePlanWhateverComesFirst) {
  for (int size = 1; size <= 5; ++size) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " replicas, seed " << seed);
      Job job(GetParam(), size, kMixedCounts, 3, seed);
      const Status status = job.Run();
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(job.AllDone());
      ExpectSums(job, GetParam(), size, 3);
    }
  }
}

TEST_P(AllreduceTest, SumsFewerValuesThanReplicas) {
  for (size_t count : {0, 1, 2, 4, 5, 6}) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << count << " values, seed " << seed);
      Job job(GetParam(), 5, {count}, 2, seed);
      ASSERT_TRUE(job.Run().ok());
      ASSERT_TRUE(job.AllDone());
      ExpectSums(job, GetParam(), 5, 2);
    }
  }
}

// The tensors of pipelines wait behind what the link was given.
TEST_P(AllreduceTest, FewWritesAreUnderWay) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    Job job(GetParam(), 3, {3000}, 1, seed);
    ASSERT_TRUE(job.Run().ok());
    EXPECT_LE(job.most_writes(), 4u) << "seed " << seed;
    EXPECT_GE(job.most_writes(), 2u) << "seed " << seed;
  }
}

TEST_P(AllreduceTest, AFailedPostIsReturnedWhereverItHappens) {
  Job whole(GetParam(), 3, kMixedCounts, 2, 1);
  ASSERT_TRUE(whole.Run().ok());
  ASSERT_GT(whole.posts(), 100);
  for (int post = 0; post < whole.posts(); ++post) {
    Job job(GetParam(), 3, kMixedCounts, 2, 1);
    job.FailAt(post);
    EXPECT_EQ(job.Run().code(), StatusCode::kUnavailable) << "post " << post;
    EXPECT_FALSE(job.AllDone());
  }
}

// Statistics among gradients: neither is rounded with the other.
TEST(DirectAllreduce, WhatIsExactIsNotRounded) {
  const std::vector<size_t> counts = {100, 3, 2, 70, 5, 0, 9};
  const std::vector<bool> exact = {true, false, true, false, false, false, true};
  for (int size = 2; size <= 4; ++size) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " replicas, seed " << seed);
      Job job(Way::kDirect, size, counts, 2, seed, exact);
      ASSERT_TRUE(job.Run().ok());
      ASSERT_TRUE(job.AllDone());
      ExpectSums(job, Way::kDirect, size, 2);
      for (const BlockPlan::Collective& collective : job.plan().collectives()) {
        for (const int param : collective.params) EXPECT_EQ(collective.exact, exact[param]) << param;
      }
    }
  }
}

const std::vector<HostsOf> kSharedHosts = {
    {0, 0},          {0, 0, 0},          {0, 0, 1, 1},       {0, 1, 0, 1, 0},
    {0, 0, 0, 1, 2}, {0, 1, 1, 2, 2, 2}, {0, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 3, 2, 1, 0}};

TEST(DirectAllreduceOverHosts, SumsOfHostsAreAddedWhateverComesFirst) {
  const std::vector<bool> exact = {true, false, true, false, false, false, true, false};
  for (const HostsOf& hosts : kSharedHosts) {
    const int size = static_cast<int>(hosts.size());
    for (unsigned seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << testing::PrintToString(hosts) << ", seed " << seed);
      Job job(Way::kDirect, size, kMixedCounts, 3, seed, exact, hosts);
      const Status status = job.Run();
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(job.AllDone());
      ExpectSums(job, Way::kDirect, size, 3, hosts);
    }
  }
}

// Of each host one sum goes out and one comes in, however many replicas it has.
TEST(DirectAllreduceOverHosts, EachHostsSumCrossesTheNetworkOnce) {
  constexpr size_t kCount = 3000;
  for (const HostsOf& hosts : kSharedHosts) {
    for (const bool exact : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(hosts));
      Job job(Way::kDirect, static_cast<int>(hosts.size()), {kCount}, 1, 1, {exact}, hosts);
      ASSERT_TRUE(job.Run().ok());
      const size_t others = std::set<int>(hosts.begin(), hosts.end()).size() - 1;
      EXPECT_EQ(job.sent_abroad(), 2 * others * kCount * (exact ? 4 : 2));
    }
  }
}

TEST(DirectAllreduceOverHosts, AFailedPostIsReturnedWhereverItHappens) {
  const HostsOf hosts = {0, 1, 1, 0};
  Job whole(Way::kDirect, 4, kMixedCounts, 2, 1, {}, hosts);
  ASSERT_TRUE(whole.Run().ok());
  ASSERT_GT(whole.posts(), 100);
  for (int post = 0; post < whole.posts(); post += 7) {
    Job job(Way::kDirect, 4, kMixedCounts, 2, 1, {}, hosts);
    job.FailAt(post);
    EXPECT_EQ(job.Run().code(), StatusCode::kUnavailable) << "post " << post;
  }
}

// Hosts send alike whatever their numbers of replicas are.
TEST(DirectPlan, BlocksAreDealtOutToHosts) {
  const HostsOf hosts = {0, 0, 0, 0, 1, 0};
  const DirectPlan plan({.rank = 0, .size = 6, .counts = {600}}, hosts);
  std::map<int, int> owned;
  for (int block = 0; block < 6; ++block) ++owned[plan.host_of(plan.owner(block))];
  EXPECT_EQ(owned, (std::map<int, int>{{0, 3}, {1, 3}}));
  for (int block = 0; block < 4; ++block) {
    EXPECT_EQ(DirectPlan({.rank = 0, .size = 4, .counts = {600}}).owner(block), block) << "apart";
  }
}

TEST(DirectPlan, TrafficIsThatOfItsPlaces) {
  for (const HostsOf& hosts : kSharedHosts) {
    SCOPED_TRACE(testing::PrintToString(hosts));
    const int size = static_cast<int>(hosts.size());
    std::vector<DirectPlan> plans;
    for (int rank = 0; rank < size; ++rank) {
      plans.push_back(DirectPlan({.rank = rank, .size = size, .counts = {103, 900}, .exact = {true, false}}, hosts));
    }
    const auto bytes = [&](int granter, int writer) {
      const std::vector<size_t> places = plans[writer].BytesFrom(granter);
      return std::accumulate(places.begin(), places.end(), int64_t{0});
    };
    for (int rank = 0; rank < size; ++rank) {
      DirectPlan::Traffic traffic;
      for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        EXPECT_EQ(plans[rank].Meets(peer), bytes(peer, rank) > 0) << rank << " and " << peer;
        traffic.sent += bytes(peer, rank);
        traffic.received += bytes(rank, peer);
      }
      EXPECT_EQ(plans[rank].TrafficOfAll().sent, traffic.sent);
      EXPECT_EQ(plans[rank].TrafficOfAll().received, traffic.received);
    }
  }
}

// Each replica sends its parts of the other blocks and the sum of its own to all others, in halves.
TEST(DirectAllreduce, SendsHalfOfWhatARingSends) {
  for (const int size : {2, 3, 5}) {
    Job ring(Way::kRing, size, {3000}, 1, 1), direct(Way::kDirect, size, {3000}, 1, 1);
    ASSERT_TRUE(ring.Run().ok());
    ASSERT_TRUE(direct.Run().ok());
    EXPECT_EQ(ring.sent(), 2 * (size - 1) * 3000 / size * sizeof(float));
    EXPECT_EQ(2 * direct.sent(), ring.sent());
  }
}

}  // namespace
}  // namespace hp

// Whole rings of replicas in one thread, whose links deliver what is under way in random orders.
#include "solvers/exchange/ring.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace hp {
namespace {

using Values = std::vector<float>;

constexpr size_t kBucketBytes = 64, kChunkBytes = 12;

/// What one replica's ring posts; the job decides when it happens.
class ScriptedLinks : public RingLinks {
 public:
  struct Posted {
    LinkPlace place;
    std::span<float> memory;        // of a grant
    std::span<const float> source;  // of a write
    LinkGrant grant = {};           // of a write
  };
  using Sink = std::function<Status(const Posted&, bool write)>;
  explicit ScriptedLinks(Sink sink) : sink_(std::move(sink)) {}

  void Begin(RingEvents*) override {}
  StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte>) override {
    return std::shared_ptr<const void>();
  }
  Status Grant(const LinkPlace& place, std::span<float> memory) override { return sink_({place, memory, {}}, false); }
  Status Write(const LinkPlace& place, const LinkGrant& grant, std::span<const float> source) override {
    return sink_({place, {}, source, grant}, true);
  }

 private:
  const Sink sink_;
};

/// A job of replicas that sum `counts` in each of `clocks` updates. All that is under way is in `pending_`; a step
/// delivers one of it, or starts the next collective of a replica.
class RingJob {
 public:
  RingJob(int size, std::vector<size_t> counts, int clocks, unsigned seed) : clocks_(clocks), random_(seed) {
    for (int rank = 0; rank < size; ++rank) {
      auto replica = std::make_unique<Replica>(RingPlan({.rank = rank,
                                                         .size = size,
                                                         .counts = counts,
                                                         .bucket_bytes = kBucketBytes,
                                                         .min_chunk_bytes = kChunkBytes,
                                                         .max_chunk_bytes = kChunkBytes}));
      replica->links = std::make_unique<ScriptedLinks>([this, rank](const ScriptedLinks::Posted& posted, bool write) {
        if (posts_++ == fail_at_) return Unavailable("link");
        return write ? OnWrite(rank, posted) : OnGrant(rank, posted);
      });
      auto ring = Ring::Create(&replica->plan, replica->links.get(), [this, rank](uint64_t clock, int collective) {
        EXPECT_TRUE(replicas_[rank]->done.insert({clock, collective}).second) << "reported twice";
      });
      replica->ring = *std::move(ring);
      replicas_.push_back(std::move(replica));
    }
  }
  /// The `post`-th post of all rings fails.
  void FailAt(int post) { fail_at_ = post; }

  /// Runs until nothing is left to do. @return the first error of a ring.
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
      return replica->done.size() == clocks_ * replica->plan.collectives().size() && replica->ring->under_way() == 0;
    });
  }
  static Values InputOf(int rank, int clock, int collective, size_t count) {
    std::mt19937 random(7919 * rank + 31 * clock + collective);
    std::normal_distribution<float> normal;
    Values values(count);
    for (float& value : values) value = normal(random);
    return values;
  }
  const RingPlan& plan() const { return replicas_[0]->plan; }
  size_t most_writes() const { return most_writes_; }

 private:
  struct Replica {
    explicit Replica(RingPlan made) : plan(std::move(made)), expected(plan.SentBytes()) {}
    const RingPlan plan;
    const std::vector<size_t> expected;  // of the right neighbour's places
    std::unique_ptr<ScriptedLinks> links;
    std::unique_ptr<Ring> ring;
    std::vector<std::vector<Values>> values;  // by clock and collective
    std::set<std::pair<uint64_t, int>> done;
    size_t started = 0;
    std::map<LinkPlace, std::span<float>> places;         // granted to the left
    std::map<LinkPlace, std::span<const float>> sources;  // of writes that have not ended
  };

  Replica& RightOf(int rank) { return *replicas_[(rank + 1) % replicas_.size()]; }
  Replica& LeftOf(int rank) { return *replicas_[(rank + replicas_.size() - 1) % replicas_.size()]; }

  // The next update begins when all sums of the one before are there.
  bool CanStart(size_t rank) const {
    const Replica& replica = *replicas_[rank];
    const size_t collectives = replica.plan.collectives().size();
    if (replica.started == clocks_ * collectives || replica.ring->under_way() == Ring::kUnderWay) return false;
    return replica.started % collectives != 0 || replica.done.size() == replica.started;
  }
  Status StartNext(size_t rank) {
    Replica& replica = *replicas_[rank];
    const size_t collectives = replica.plan.collectives().size();
    const int clock = static_cast<int>(replica.started / collectives);
    const int collective = static_cast<int>(replica.started++ % collectives);
    replica.values.resize(clock + 1);
    replica.values[clock].resize(collectives);
    Values& values = replica.values[clock][collective];
    values = InputOf(static_cast<int>(rank), clock, collective, replica.plan.collectives()[collective].count);
    return replica.ring->Start(clock, collective, values);
  }

  // Places are what the neighbour expects, each once.
  Status OnGrant(int rank, const ScriptedLinks::Posted& posted) {
    Replica& left = LeftOf(rank);
    EXPECT_EQ(left.expected.at(posted.place.number), posted.memory.size_bytes());
    EXPECT_TRUE(replicas_[rank]->places.emplace(posted.place, posted.memory).second) << "granted twice";
    for (const auto& [place, source] : replicas_[rank]->sources) {
      const bool apart = source.data() + source.size() <= posted.memory.data() ||
                         posted.memory.data() + posted.memory.size() <= source.data();
      EXPECT_TRUE(apart) << "granted while it is being sent";
    }
    const LinkGrant grant{posted.place.number, static_cast<uint32_t>(posted.place.clock)};
    pending_.push_back([&left, posted, grant] { return left.ring->OnGranted(posted.place, grant); });
    return OkStatus();
  }
  // The source is read when the bytes land, as late as a transport may. That they have landed, and that the source is
  // free, is told in any order.
  Status OnWrite(int rank, const ScriptedLinks::Posted& posted) {
    Replica &writer = *replicas_[rank], &right = RightOf(rank);
    EXPECT_EQ(posted.grant.index, posted.place.number);
    EXPECT_EQ(posted.grant.generation, posted.place.clock);
    writer.sources[posted.place] = posted.source;
    most_writes_ = std::max(most_writes_, writer.sources.size());
    pending_.push_back([this, &writer, &right, posted] {
      const std::span<float> place = right.places.at(posted.place);
      EXPECT_EQ(place.size(), posted.source.size());
      std::copy(posted.source.begin(), posted.source.end(), place.begin());
      pending_.push_back([&right, posted] { return right.ring->OnArrived(posted.place); });
      pending_.push_back([&writer, posted] {
        writer.sources.erase(posted.place);
        return writer.ring->OnWritten(posted.place);
      });
      return OkStatus();
    });
    return OkStatus();
  }

  const size_t clocks_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::function<Status()>> pending_;
  size_t most_writes_ = 0;
  int posts_ = 0, fail_at_ = -1;
};

/// Block b in the order b, b + 1, ..., of the replicas, which is what RingPlan promises.
Values SumOf(int size, int clock, int collective, size_t count) {
  std::vector<Values> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(RingJob::InputOf(rank, clock, collective, count));
  Values sum(count);
  for (int block = 0; block < size; ++block) {
    const size_t begin = count * block / size, end = count * (block + 1) / size;
    for (size_t i = begin; i < end; ++i) {
      sum[i] = inputs[block][i];
      for (int next = 1; next < size; ++next) sum[i] += inputs[(block + next) % size][i];
    }
  }
  return sum;
}

void ExpectSums(const RingJob& job, int size, int clocks) {
  for (int clock = 0; clock < clocks; ++clock) {
    for (size_t c = 0; c < job.plan().collectives().size(); ++c) {
      const int collective = static_cast<int>(c);
      const size_t count = job.plan().collectives()[c].count;
      const Values expected = SumOf(size, clock, collective, count);
      for (int rank = 0; rank < size; ++rank) {
        const Values& found = job.result(rank, clock, collective);
        ASSERT_EQ(found.size(), count);
        if (count == 0) continue;
        EXPECT_EQ(0, std::memcmp(found.data(), expected.data(), count * sizeof(float)))
            << "replica " << rank << ", clock " << clock << ", collective " << c;
      }
    }
  }
}

const std::vector<size_t> kMixedCounts = {40, 1, 250, 3, 0, 16, 95, 7};

TEST(Ring, SumsInTheOrderOfThePlanWhateverComesFirst) {
  for (int size = 1; size <= 5; ++size) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " replicas, seed " << seed);
      RingJob job(size, kMixedCounts, 3, seed);
      const Status status = job.Run();
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(job.AllDone());
      ExpectSums(job, size, 3);
    }
  }
}

TEST(Ring, SumsFewerValuesThanReplicas) {
  for (size_t count : {0, 1, 2, 4, 5, 6}) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << count << " values, seed " << seed);
      RingJob job(5, {count}, 2, seed);
      ASSERT_TRUE(job.Run().ok());
      ASSERT_TRUE(job.AllDone());
      ExpectSums(job, 5, 2);
    }
  }
}

// The tensors of pipelines wait behind what the link was given.
TEST(Ring, FewWritesAreUnderWay) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    RingJob job(3, {3000}, 1, seed);
    ASSERT_TRUE(job.Run().ok());
    EXPECT_LE(job.most_writes(), 4u) << "seed " << seed;
    EXPECT_GE(job.most_writes(), 2u) << "seed " << seed;
  }
}

TEST(Ring, AFailedPostIsReturnedWhereverItHappens) {
  RingJob whole(3, kMixedCounts, 2, 1);
  ASSERT_TRUE(whole.Run().ok());
  ASSERT_GT(whole.posts(), 100);
  for (int post = 0; post < whole.posts(); ++post) {
    RingJob job(3, kMixedCounts, 2, 1);
    job.FailAt(post);
    EXPECT_EQ(job.Run().code(), StatusCode::kUnavailable) << "post " << post;
    EXPECT_FALSE(job.AllDone());
  }
}

}  // namespace
}  // namespace hp

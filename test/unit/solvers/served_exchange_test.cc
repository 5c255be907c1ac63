// Replicas and parameter servers in one thread, whose links deliver what is under way in random orders. A write takes
// its source when it arrives, so that memory which is changed too early shows.
#include "base/range.h"
#include "solvers/exchange/parameter_server.h"
#include "solvers/exchange/server_client.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hp {
namespace {

using Values = std::vector<float>;

/// Parameters of 5 and 3 values: the first one cut over the servers, the other on the last server alone.
constexpr size_t kCounts[] = {5, 3};

float GradientOf(int replica, uint64_t clock, int param, size_t i) {
  return static_cast<float>(100 * clock + 10 * static_cast<uint64_t>(replica) + static_cast<uint64_t>(param) + i);
}

/// Posts of one node, handed to the job with the peer's index.
class ScriptedLinks : public PeerLinks {
 public:
  struct Posted {
    int peer = 0;
    LinkPlace place = {};
    std::span<std::byte> memory = {};        // of a grant
    std::span<const std::byte> source = {};  // of a write
    bool write = false;
  };
  explicit ScriptedLinks(std::function<void(const Posted&)> sink) : sink_(std::move(sink)) {}

  void Begin(PeerEvents* begun) override { events = begun; }
  StatusOr<std::shared_ptr<const void>> Register(std::span<std::byte>) override {
    return std::shared_ptr<const void>();
  }
  Status Grant(int peer, const LinkPlace& place, std::span<std::byte> memory) override {
    sink_({peer, place, memory, {}});
    return OkStatus();
  }
  Status Write(int peer, const LinkPlace& place, const LinkGrant&, std::span<const std::byte> source) override {
    sink_({peer, place, {}, source, true});
    return OkStatus();
  }

  PeerEvents* events = nullptr;

 private:
  const std::function<void(const Posted&)> sink_;
};

class ServedJob {
 public:
  ServedJob(int replicas, int servers, uint64_t clocks, unsigned seed) : clocks_(clocks), random_(seed) {
    replicas_.resize(replicas);
    servers_.resize(servers);
    for (int r = 0; r < replicas; ++r) MakeReplica(r);
    for (int s = 0; s < servers; ++s) MakeServer(s);
    for (Server& server : servers_) server.server->Start();
  }

  void Run() {
    for (;;) {
      std::vector<std::function<void()>> next;
      for (size_t r = 0; r < replicas_.size(); ++r) AddSteps(static_cast<int>(r), &next);
      const size_t choices = next.size() + pending_.size();
      if (choices == 0) break;
      const size_t choice = random_() % choices;
      if (choice < next.size()) {
        next[choice]();
        continue;
      }
      const auto event = pending_.begin() + static_cast<ptrdiff_t>(choice - next.size());
      const std::function<void()> deliver = std::move(*event);
      pending_.erase(event);
      deliver();
    }
    for (const Replica& replica : replicas_) {
      for (int p = 0; p < 2; ++p) EXPECT_EQ(replica.state[p].clock, clocks_) << "replica stops in front of the end";
    }
  }

 private:
  /// Of a replica's parameter: what it has done of which clock.
  struct State {
    uint64_t clock = 0;
    bool pushed = false, pulled = false, sent = false, came = false;
  };
  struct Replica {
    std::unique_ptr<ScriptedLinks> links;
    std::unique_ptr<ServerClient> client;
    Values gradient[2], values[2];
    State state[2];
  };
  struct Server {
    std::unique_ptr<ScriptedLinks> links;
    std::unique_ptr<ParameterServer> server;
    Values values[2];
    std::set<std::pair<uint64_t, int>> updated;
  };

  /// What server `s` has of a parameter: of the first as much as the others, of the second nothing but the last.
  Range PartOfServer(int s, int p) const {
    const int servers = static_cast<int>(servers_.size());
    if (p == 0) return PartOf(static_cast<int64_t>(kCounts[0]), s, servers);
    return s == servers - 1 ? Range{0, static_cast<int64_t>(kCounts[1])} : Range{};
  }
  uint32_t NumberOf(int s, int p) const { return static_cast<uint32_t>(p) * 100 + static_cast<uint32_t>(s); }

  void MakeReplica(int r) {
    Replica& replica = replicas_[r];
    replica.links = std::make_unique<ScriptedLinks>([this, r](const auto& posted) {
      Post(posted, replicas_[r].links.get(), servers_[posted.peer].links.get(), r);
    });
    std::vector<ServerClient::Param> params;
    for (int p = 0; p < 2; ++p) {
      replica.gradient[p].resize(kCounts[p]);
      replica.values[p].resize(kCounts[p]);
      params.push_back({7 + p, replica.gradient[p], {replica.values[p]}, {}});
      for (int s = 0; s < static_cast<int>(servers_.size()); ++s) {
        const Range part = PartOfServer(s, p);
        if (part.empty()) continue;
        params.back().pieces.push_back(
            {s, NumberOf(s, p), static_cast<size_t>(part.begin), static_cast<size_t>(part.size())});
      }
    }
    ServerClient::Callbacks callbacks;
    callbacks.on_sent = [this, r](uint64_t clock, int param) {
      State& state = replicas_[r].state[param - 7];
      EXPECT_TRUE(clock == state.clock && state.pushed && !std::exchange(state.sent, true));
    };
    callbacks.on_values = [this, r](uint64_t clock, int param) {
      State& state = replicas_[r].state[param - 7];
      EXPECT_TRUE(clock == state.clock && state.pulled && !std::exchange(state.came, true));
    };
    replica.client = *ServerClient::Create(std::move(params), replica.links.get(), std::move(callbacks));
  }

  void MakeServer(int s) {
    Server& server = servers_[s];
    server.links = std::make_unique<ScriptedLinks>([this, s](const auto& posted) {
      Post(posted, servers_[s].links.get(), replicas_[posted.peer].links.get(), s);
    });
    ParameterServer::Options options;
    options.replicas = static_cast<int>(replicas_.size());
    options.end_clock = static_cast<int64_t>(clocks_);
    for (int p = 0; p < 2; ++p) {
      const Range part = PartOfServer(s, p);
      if (part.empty()) continue;
      server.values[p].resize(static_cast<size_t>(part.size()));
      options.params.push_back({p, NumberOf(s, p), server.values[p].size(), {server.values[p]}});
    }
    server.server = *ParameterServer::Create(std::move(options), server.links.get(), [this, s](uint64_t clock, int p) {
      EXPECT_TRUE(servers_[s].updated.insert({clock, p}).second) << "gradients reported twice";
      pending_.push_back([this, s, clock, p] { Update(s, clock, p); });
    });
  }

  /// Something is under way from one node to another.
  void Post(const ScriptedLinks::Posted& posted, ScriptedLinks* from, ScriptedLinks* to, int own) {
    if (!posted.write) {
      memory_[{from, to, posted.place}] = posted.memory;
      pending_.push_back([=] { to->events->OnGranted(own, posted.place, {}); });
      return;
    }
    const auto granted = memory_.extract({to, from, posted.place});
    ASSERT_TRUE(granted) << "written without a grant";
    ASSERT_EQ(granted.mapped().size(), posted.source.size());
    pending_.push_back([this, posted, from, to, own, memory = granted.mapped()] {
      std::copy(posted.source.begin(), posted.source.end(), memory.begin());
      pending_.push_back([=] { to->events->OnArrived(own, posted.place); });
      pending_.push_back([=] { from->events->OnWritten(posted.peer, posted.place); });
    });
  }

  /// What a replica may do next with each of its parameters.
  void AddSteps(int r, std::vector<std::function<void()>>* next) {
    for (int p = 0; p < 2; ++p) {
      State& state = replicas_[r].state[p];
      if (state.clock == clocks_) continue;
      if (!state.pushed) {
        next->push_back([this, r, p] { Push(r, p); });
      } else if (!state.pulled) {
        next->push_back([this, r, p] {
          Replica& replica = replicas_[r];
          replica.state[p].pulled = true;
          std::fill(replica.values[p].begin(), replica.values[p].end(), -1.0f);
          replica.client->Pull(replica.state[p].clock, 7 + p, replica.values[p]);
        });
      } else if (state.sent && state.came) {
        next->push_back([this, r, p] { FinishClock(r, p); });
      }
    }
  }

  void Push(int r, int p) {
    Replica& replica = replicas_[r];
    for (size_t i = 0; i < kCounts[p]; ++i) replica.gradient[p][i] = GradientOf(r, replica.state[p].clock, p, i);
    replica.state[p].pushed = true;
    replica.client->Push(replica.state[p].clock, 7 + p);
  }

  /// The values of update t are those of t - 1 and all gradients of t.
  void FinishClock(int r, int p) {
    Replica& replica = replicas_[r];
    State& state = replica.state[p];
    for (size_t i = 0; i < kCounts[p]; ++i) {
      float expected = 0;
      for (uint64_t clock = 0; clock <= state.clock; ++clock) {
        for (size_t other = 0; other < replicas_.size(); ++other) {
          expected += GradientOf(static_cast<int>(other), clock, p, i);
        }
      }
      EXPECT_EQ(replica.values[p][i], expected) << "parameter " << p << " of clock " << state.clock;
    }
    state = {.clock = state.clock + 1};
  }

  void Update(int s, uint64_t clock, int p) {
    Server& server = servers_[s];
    const size_t first = static_cast<size_t>(PartOfServer(s, p).begin);
    for (size_t r = 0; r < replicas_.size(); ++r) {
      const std::span<const float> gradient = server.server->GradientOf(clock, p, static_cast<int>(r));
      for (size_t i = 0; i < gradient.size(); ++i) {
        EXPECT_EQ(gradient[i], GradientOf(static_cast<int>(r), clock, p, first + i));
        server.values[p][i] += gradient[i];
      }
    }
    server.server->Release(clock, p);
    server.server->Serve(clock, p, server.values[p]);
  }

  const uint64_t clocks_;
  std::mt19937 random_;
  std::vector<Replica> replicas_;
  std::vector<Server> servers_;
  std::map<std::tuple<ScriptedLinks*, ScriptedLinks*, LinkPlace>, std::span<std::byte>> memory_;  // granted: by, to
  std::vector<std::function<void()>> pending_;
};

TEST(ServedExchangeTest, AnyOrderGivesTheSameValues) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ServedJob(1 + static_cast<int>(seed % 4), 1 + static_cast<int>(seed / 4 % 3), 4, seed).Run();
    if (testing::Test::HasFailure()) break;
  }
}

TEST(ServedExchangeTest, MemoryIsThatOfAllReplicasGradients) {
  ParameterServer::Options options;
  options.replicas = 3;
  options.params = {{0, 0, 1}, {1, 1, 17}};
  EXPECT_EQ(ParameterServer::BytesFor(options), 3 * (16 + 32) * sizeof(float)) << "in lines of 64 bytes";
}

}  // namespace
}  // namespace hp

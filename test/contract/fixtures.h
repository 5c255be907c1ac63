#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "transport/transport.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// One kind of transport as the suite makes it: the nodes of one job.
class TransportWorld {
 public:
  virtual ~TransportWorld() = default;
  virtual std::unique_ptr<Transport> Create(Rank rank) = 0;
  virtual std::unique_ptr<Transport> CreateClient(Rank server) = 0;
  /// Returns when all that nodes say to each other by themselves, once they are connected, has been said.
  virtual void AwaitQuiet() {}
};

struct WorldOptions {
  int size = 2;
  int connect_deadline_ms = 20'000;
  const Clock* clock = Clock::Real();
};

/// A transport under test: its name and how to make a world of it.
struct TransportKind {
  std::string name;
  std::function<std::unique_ptr<TransportWorld>(const WorldOptions&)> make;
  std::string missing = {};  ///< what it needs and this host lacks; its tests are skipped
  /// Its own Stop, and a failure, keep a peer that lives from writing only when that has reported its end.
  bool peers_write_on = false;
};

// What a program of the suite tests: host_transports.cc or device_transports.cc says.

std::vector<TransportKind> AllTransports();
/// A deadline that is expected to pass: long enough for those nodes that do appear.
int ShortDeadlineMs();

/// A hello of "JOB RANK"; refuses other jobs. Clients say rank -1 and get the next client rank.
class TestPolicy : public HandshakePolicy {
 public:
  TestPolicy(std::string job, Rank rank) : job_(std::move(job)), rank_(rank) {}
  std::string Hello() override { return job_ + " " + std::to_string(rank_); }
  Rank ClaimedRank(std::string_view hello) const override;
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnClientAddress(Rank client, const std::string& address) override HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    client_addresses_[client] = address;
  }
  void OnRefused(Rank peer, const Status& reason) override HP_EXCLUDES(mutex_);
  void OnRefusalSent(std::string_view hello) override HP_EXCLUDES(mutex_);
  std::vector<std::string> refusals() HP_EXCLUDES(mutex_);
  std::map<Rank, std::string> client_addresses() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return client_addresses_;
  }
  /// The hellos of those that came to us and were refused.
  std::vector<std::string> refused_hellos() HP_EXCLUDES(mutex_);

 private:
  const std::string job_;
  const Rank rank_;
  Rank next_client_ = kFirstClientRank;
  Mutex mutex_;
  std::vector<std::string> refusals_ HP_GUARDED_BY(mutex_), refused_hellos_ HP_GUARDED_BY(mutex_);
  std::map<Rank, std::string> client_addresses_ HP_GUARDED_BY(mutex_);
};

/// Something a handler was told.
struct Event {
  enum Kind { kConnected, kConnectFailed, kGranted, kGrantEnded, kWriteEnded, kMessage, kClosed, kOutOfMemory } kind;
  Rank peer = -1;
  PlaceTag tag = {};
  RemoteGrant grant = {};
  size_t bytes = 0;
  uint32_t type = 0;
  std::string body = {};
  Status status = {};
};

/// A node: its transport, and everything that its handler was told, in order.
class TestNode : public TransportHandler {
 public:
  TestNode(std::unique_ptr<Transport> transport, const std::string& job, Rank rank)
      : policy_(job, rank), transport_(std::move(transport)) {}
  ~TestNode() override { transport_->Stop(); }

  Transport* operator->() { return transport_.get(); }
  TestPolicy* policy() { return &policy_; }
  void Start() { ASSERT_TRUE(transport_->Start(this, &policy_).ok()); }
  /// `reaction` is called in the handler, after the event was recorded.
  void ReactBy(std::function<void(const Event&)> reaction) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    reaction_ = std::move(reaction);
  }

  /// Waits until `count` events match; fails the test after 20 s.
  void Await(const std::function<bool(const Event&)>& match, size_t count = 1) HP_EXCLUDES(mutex_);
  void Await(Event::Kind kind, size_t count = 1) {
    Await([kind](const Event& event) { return event.kind == kind; }, count);
  }
  void AwaitFrom(Event::Kind kind, Rank peer, size_t count = 1) {
    Await([=](const Event& event) { return event.kind == kind && event.peer == peer; }, count);
  }
  std::vector<Event> events() HP_EXCLUDES(mutex_);
  std::vector<Event> events(Event::Kind kind) HP_EXCLUDES(mutex_);
  /// The one event of this kind for this tag, after waiting for it.
  Event Get(Event::Kind kind, const PlaceTag& tag) HP_EXCLUDES(mutex_);

  void OnConnected(Rank peer) override;
  void OnConnectFailed(Rank peer, const Status& status) override;
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override;
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void OnClosed(Rank peer, const Status& status) override;
  void OnOutOfMemory(const Status& status) override;

 private:
  void Record(Event event) HP_EXCLUDES(mutex_);

  TestPolicy policy_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Event> events_ HP_GUARDED_BY(mutex_);
  std::function<void(const Event&)> reaction_ HP_GUARDED_BY(mutex_);
  std::unique_ptr<Transport> transport_;  // last: its thread calls the rest
};

/// Reproducible bytes: a function of `seed` and the index.
std::vector<std::byte> Pattern(size_t bytes, uint64_t seed);
bool Same(std::span<const std::byte> a, std::span<const std::byte> b);
bool AllAre(std::span<const std::byte> bytes, std::byte value);
std::span<const std::byte> AsBytes(const std::string& text);

/// The suite's fixture.
class TransportTest : public testing::TestWithParam<TransportKind> {
 protected:
  void SetUp() override {
    if (!GetParam().missing.empty()) GTEST_SKIP() << GetParam().missing;
  }
  /// Peers may copy into a node's memory until they have stopped.
  void TearDown() override {
    for (const auto& node : nodes_) (*node)->Stop();
  }
  /// Starts `size` nodes of one job and waits until all are connected to each other.
  void StartNodes(int size) { StartNodes({.size = size}); }
  void StartNodes(const WorldOptions& options);
  void MakeNodes(const WorldOptions& options);
  void AwaitMesh();
  TestNode& node(Rank rank) { return *nodes_[rank]; }

  FakeClock clock_;  // ahead of the nodes: their threads read it to the end
  std::unique_ptr<TransportWorld> world_;
  std::vector<std::unique_ptr<TestNode>> nodes_;
};

}  // namespace hp

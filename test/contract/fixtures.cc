#include "test/contract/fixtures.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr std::chrono::seconds kPatience(120);  // the processor may be emulated

}  // namespace

Rank TestPolicy::ClaimedRank(std::string_view hello) const {
  const size_t space = hello.rfind(' ');
  return space == std::string_view::npos ? -1 : std::atoi(std::string(hello.substr(space + 1)).c_str());
}

StatusOr<Rank> TestPolicy::Accept(std::string_view hello) {
  char job[64] = "";
  int rank = 0;
  if (std::sscanf(std::string(hello).c_str(), "%63s %d", job, &rank) != 2) return InvalidArgument("no hello");
  if (job != job_) return FailedPrecondition("job \"%s\" here, \"%s\" there", job_.c_str(), job);
  return rank >= 0 ? rank : next_client_++;
}

void TestPolicy::OnRefused(Rank, const Status& reason) {
  MutexLock lock(&mutex_);
  refusals_.push_back(reason.message());
}

void TestPolicy::OnRefusalSent(std::string_view hello) {
  MutexLock lock(&mutex_);
  refused_hellos_.emplace_back(hello);
}

std::vector<std::string> TestPolicy::refused_hellos() {
  MutexLock lock(&mutex_);
  return refused_hellos_;
}

std::vector<std::string> TestPolicy::refusals() {
  MutexLock lock(&mutex_);
  return refusals_;
}

void TestNode::Await(const std::function<bool(const Event&)>& match, size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(&mutex_);
  while (true) {
    size_t found = 0;
    for (const Event& event : events_) found += match(event);
    if (found >= count) return;
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << found << " of " << count << " events came";
    changed_.WaitFor(&mutex_, std::chrono::milliseconds(100));
  }
}

std::vector<Event> TestNode::events() {
  MutexLock lock(&mutex_);
  return events_;
}

std::vector<Event> TestNode::events(Event::Kind kind) {
  std::vector<Event> found;
  for (const Event& event : events()) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

Event TestNode::Get(Event::Kind kind, const PlaceTag& tag) {
  Await([&](const Event& event) { return event.kind == kind && event.tag == tag; });
  for (const Event& event : events(kind)) {
    if (event.tag == tag) return event;
  }
  return {};
}

void TestNode::Record(Event event) {
  std::function<void(const Event&)> reaction;
  {
    MutexLock lock(&mutex_);
    events_.push_back(event);
    changed_.SignalAll();
    reaction = reaction_;
  }
  if (reaction) reaction(event);
}

void TestNode::OnConnected(Rank peer) { Record({.kind = Event::kConnected, .peer = peer}); }
void TestNode::OnConnectFailed(Rank peer, const Status& status) {
  Record({.kind = Event::kConnectFailed, .peer = peer, .status = status});
}
void TestNode::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  Record({.kind = Event::kGranted, .peer = peer, .tag = tag, .grant = grant, .bytes = bytes});
}
void TestNode::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  Record({.kind = Event::kGrantEnded, .peer = peer, .tag = tag, .status = status});
}
void TestNode::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  Record({.kind = Event::kWriteEnded, .peer = peer, .tag = tag, .status = status});
}
void TestNode::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  Record({.kind = Event::kMessage,
          .peer = peer,
          .type = type,
          .body = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
}
void TestNode::OnClosed(Rank peer, const Status& status) {
  Record({.kind = Event::kClosed, .peer = peer, .status = status});
}

void TestNode::OnOutOfMemory(const Status& status) { Record({.kind = Event::kOutOfMemory, .status = status}); }

std::vector<std::byte> Pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> pattern(bytes);
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = (at / 8 + seed + 1) * 0x9E3779B97F4A7C15u;
    std::memcpy(&pattern[at], &word, std::min(sizeof(word), bytes - at));
  }
  return pattern;
}

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool AllAre(std::span<const std::byte> bytes, std::byte value) {
  return bytes.empty() || (bytes[0] == value && Same(bytes.first(bytes.size() - 1), bytes.subspan(1)));
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void TransportTest::MakeNodes(const WorldOptions& options) {
  world_ = GetParam().make(options);
  for (Rank rank = 0; rank < options.size; ++rank) {
    nodes_.push_back(std::make_unique<TestNode>(world_->Create(rank), "job", rank));
  }
}

void TransportTest::StartNodes(const WorldOptions& options) {
  MakeNodes(options);
  for (auto& node : nodes_) node->Start();
  AwaitMesh();
}

void TransportTest::AwaitMesh() {
  for (auto& node : nodes_) node->Await(Event::kConnected, nodes_.size() - 1);
  world_->AwaitQuiet();
}

}  // namespace hp

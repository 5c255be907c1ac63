#include "test/unit/snapshot/snapshot_job.h"

#include "transport/partial_transport.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hp::test {

// --- Wire

class Wire::NodeTransport : public PartialTransport {
 public:
  NodeTransport(Wire* wire, Rank rank) : wire_(wire), rank_(rank) {}

  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override {
    const std::lock_guard lock(wire_->mutex_);
    wire_->grants_.push_back({rank_, peer, tag, place});
    wire_->events_.push_back({false, static_cast<uint32_t>(wire_->grants_.size() - 1)});
    wire_->changed_.notify_all();
    return OkStatus();
  }
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    const std::lock_guard lock(wire_->mutex_);
    const Wire::Grant& granted = wire_->grants_[grant.index];
    EXPECT_EQ(granted.owner, peer);
    EXPECT_EQ(granted.writer, rank_);
    EXPECT_EQ(granted.tag, tag);
    EXPECT_EQ(granted.place.size(), source.size());
    wire_->events_.push_back({true, grant.index, source});
    wire_->changed_.notify_all();
    return OkStatus();
  }

  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(wire_->mutex_);
    wire_->sent_[{rank_, peer}].push_back({type, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
    return OkStatus();
  }
  void Break(Rank peer, const Status&) override {
    const std::lock_guard lock(wire_->mutex_);
    wire_->broken_.insert({rank_, peer});
  }

 private:
  Wire* const wire_;
  const Rank rank_;
};

Wire::Wire(int nodes) {
  for (Rank rank = 0; rank < nodes; ++rank) transports_.push_back(std::make_unique<NodeTransport>(this, rank));
  thread_ = std::thread([this] { Run(); });
}

Wire::~Wire() { Stop(); }

std::set<Rank> Wire::broken(Rank rank) {
  const std::lock_guard lock(mutex_);
  std::set<Rank> peers;
  for (const auto& [by, peer] : broken_) {
    if (by == rank) peers.insert(peer);
  }
  return peers;
}

void Wire::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Transport* Wire::transport(Rank rank) { return transports_[rank].get(); }

void Wire::Hold(Rank rank) {
  const std::lock_guard lock(mutex_);
  held_.insert(rank);
}

void Wire::Release(Rank rank) {
  const std::lock_guard lock(mutex_);
  held_.erase(rank);
  changed_.notify_all();
}

std::vector<Wire::Message> Wire::TakeSent(Rank rank, Rank peer) {
  const std::lock_guard lock(mutex_);
  return std::exchange(sent_[{rank, peer}], {});
}

void Wire::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto next = std::find_if(events_.begin(), events_.end(), [this](const Event& event) {
      return !event.write || !held_.contains(grants_[event.grant].writer);
    });
    if (next == events_.end()) {
      changed_.wait(lock);
      continue;
    }
    const Event event = *next;
    const Grant grant = grants_[event.grant];
    events_.erase(next);
    lock.unlock();
    Deliver(event, grant);
    lock.lock();
  }
}

void Wire::Deliver(const Event& event, const Grant& grant) {
  if (!event.write) return handlers_.at(grant.writer).on_granted(grant.owner, grant.tag, {event.grant, 0});
  std::memcpy(grant.place.data(), event.source.data(), event.source.size());
  handlers_.at(grant.writer).on_write_ended(grant.tag);
  handlers_.at(grant.owner).on_grant_ended(OkStatus());
}

// --- SnapshotJob

namespace {

constexpr int kHistories = 2;

WholeParam Param(const char* layer, int blob, const Shape& shape, std::vector<WholeParam::Slice> slices,
                 float lr_mult = 1) {
  return {{.layer = layer, .blob = blob, .whole = shape, .lr_mult = lr_mult, .solver_keeps = kHistories},
          std::move(slices)};
}

std::vector<WholeParam> AllKinds() {
  return {
      Param("conv", 0, {2, 3, 2, 2}, {{0, {0, 2, 0, 12}}}),
      Param("columns", 0, {5, 7}, {{0, {0, 5, 0, 0}}, {1, {0, 5, 0, 3}}, {2, {0, 5, 3, 7}}}),
      Param("columns", 1, {5}, {{1, {0, 5, 0, 1}}}),
      Param("rows", 0, {4, 6}, {{0, {0, 1, 0, 6}}, {1, {1, 1, 0, 6}}, {2, {1, 4, 0, 6}}}),
      Param("frozen", 0, {3, 4}, {{1, {0, 3, 2, 4}}, {2, {0, 3, 0, 2}}}, 0),
  };
}

std::vector<StoredParam> StoredOf(const std::vector<WholeParam>& params, Rank rank) {
  std::vector<StoredParam> stored;
  for (const WholeParam& param : params) {
    for (const WholeParam::Slice& slice : param.slices) {
      if (slice.owner != rank) continue;
      stored.push_back(param.whole);
      stored.back().block = slice.block;
    }
  }
  return stored;
}

caffe::NetParameter NetOf(const std::vector<WholeParam>& params) {
  caffe::NetParameter net;
  for (const WholeParam& param : params) {
    if (param.whole.blob > 0) continue;
    net.add_layer()->set_name(param.whole.layer);
    net.mutable_layer(net.layer_size() - 1)->set_type("InnerProduct");
  }
  return net;
}

}  // namespace

SnapshotJob::SnapshotJob(const std::string& folder, Snapshotter::Options options,
                         std::function<void(const std::string& step)> others)
    : folder_(folder), params_(AllKinds()) {
  options.files.prefix = prefix();
  options.files.train_net = NetOf(params_);
  options.files.solver.set_lr_policy("fixed");
  options.files.manifest.set_histories(kHistories);
  if (!options.on_pulled) options.on_pulled = [](auto) {};
  if (!options.on_room) options.on_room = [] {};
  for (Rank rank = 0; rank < kNodes; ++rank) options.files.manifest.add_node()->set_name("n" + std::to_string(rank));
  for (Rank rank = 0; rank < kNodes; ++rank) {
    options.rank = rank;
    options.send_part = [this, rank](const SnapshotPartWritten& part) { first().OnPart(rank, part); };
    stores_.push_back(std::make_unique<ParamStore>(StoredOf(params_, rank)));
    snapshotters_.push_back(
        std::make_unique<Snapshotter>(params_, stores_.back().get(), wire_.transport(rank), options));
    Snapshotter* const node = snapshotters_.back().get();
    wire_.SetHandler(rank, {[node](Rank peer, const PlaceTag& tag, RemoteGrant grant) {
                              EXPECT_TRUE(IsSliceTag(tag));
                              node->OnGranted(peer, tag, grant);
                            },
                            [node](const Status& status) { node->OnGrantEnded(status); },
                            [node](const PlaceTag& tag) { node->OnWriteEnded(tag); }});
    options.on_room = [] {};  // the first node's alone
    options.files.before_step = others;
  }
}

SnapshotJob::~SnapshotJob() { wire_.Stop(); }

std::vector<float> SnapshotJob::Numbers(size_t param, int64_t count, int64_t clock, int array) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(clock * 10000 + static_cast<int64_t>(param) * 100 + i);
    numbers.push_back(array > 0 ? -number - static_cast<float>(array) / 4 : number);
  }
  return numbers;
}

void SnapshotJob::Train(int64_t clock) {
  for (size_t p = 0; p < params_.size(); ++p) {
    const StoredParam& whole = params_[p].whole;
    for (const WholeParam::Slice& slice : params_[p].slices) {
      ParamStore* const store = stores_[slice.owner].get();
      const int i = store->Find(whole.layer, whole.blob);
      for (int array = 0; array <= whole.histories(); ++array) {
        CutBlock(Numbers(p, whole.whole.count(), clock, array), whole.whole, slice.block, store->array(i, 0, array));
      }
    }
  }
}

void SnapshotJob::Begin(int64_t clock, bool files, bool pull, int64_t start) {
  Train(clock);
  for (Rank rank = kNodes - 1; rank >= 0; --rank) {
    ASSERT_TRUE(snapshotters_[rank]->HasRoom(files, start)) << "node " << rank << ", iteration " << clock;
    ASSERT_TRUE(snapshotters_[rank]->Begin(clock, clock, files, pull, std::nullopt, start).ok());
  }
}

Status SnapshotJob::Finish() {
  for (Rank rank = 1; rank < kNodes; ++rank) EXPECT_TRUE(snapshotters_[rank]->Finish().ok());
  return snapshotters_[0]->Finish();
}

bool SnapshotJob::IsThere(int64_t clock) const {
  std::vector<SnapshotParam> expected;
  for (const WholeParam& param : params_) {
    expected.push_back({param.whole.layer, param.whole.blob, param.whole.whole});
  }
  const auto read = ReadSnapshot(SnapshotStatePath(prefix(), clock), expected, kHistories);
  if (!read.ok()) return false;
  for (size_t p = 0; p < params_.size(); ++p) {
    const StoredParam& whole = params_[p].whole;
    const int64_t count = whole.whole.count();
    EXPECT_EQ(read->model.Find(whole.layer, whole.blob)->data, Numbers(p, count, clock, 0)) << whole.name();
    for (int number = 1; number <= kHistories; ++number) {
      EXPECT_EQ(read->histories.at({whole.layer, whole.blob}).at(number - 1).data,
                whole.frozen() ? std::vector<float>(count) : Numbers(p, count, clock, number))
          << whole.name();
    }
  }
  return true;
}

}  // namespace hp::test

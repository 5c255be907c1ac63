#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/slice_tag.h"
#include "test/fuzz/lying_node.h"

#include <algorithm>
#include <set>

namespace hp {

// As the real ones, of which the first sends the verdict on and the second tells Compute and Snapshotter too.
void ClockEnd::OnReport(Rank from, const IterationReport& report) {
  options_.requests->AddReport(from, report, [this](const Verdict& verdict) { OnVerdict(verdict); });
}

void ClockEnd::OnVerdict(const Verdict& verdict) {
  if (verdict.status() != 0) return options_.on_stopped(NumericError("%s", verdict.layer().c_str()));
  options_.requests->Add(verdict);
  const int64_t due = verdict.clock() + options_.requests->delay();
  options_.pipeline->OnVerdict(verdict.clock(), verdict.stop() ? std::optional<int64_t>(due) : std::nullopt);
}

// No weights are ever gathered here.
void GatheredModel::CopyValues(size_t, int64_t, std::span<float>) const { std::abort(); }

namespace fuzz {
namespace {

constexpr size_t kPlaceBytes = 1 << 20;  // more than any tensor of the job

/// As if each peer that exchanges gradients with `self` granted it three places, of which one is never used.
std::vector<ExchangePlaces> PlacesOf(const RoutingTable& table, Rank self) {
  std::vector<ExchangePlaces> places;
  const StagePart& own = table.node(self).parts[0];
  const StageInfo& stage = table.stage(own.stage);
  const int conv = stage.server ? 0 : own.stage;  // the first stage is served
  if (!stage.server && !stage.conv) return places;
  const int served = table.stage(conv).served;
  const std::vector<Rank>& others = served < 0 || stage.server ? table.stage(conv).ranks : table.stage(served).ranks;
  for (const Rank rank : others) {
    if (rank != self) places.push_back({conv, rank, {64, 0, 256}});
  }
  return places;
}

}  // namespace

VictimNode::VictimNode(const RoutingTable& table, const JobPlan& job, Rank self)
    : job_(job),
      self_(self),
      plan_(job.pipeline(self)),
      detector_(table, self, &transport, Clock::Real(), [](const Status&, bool) {}),
      rendezvous_(&transport, self, table.stage(0).ranks),
      pulls_(&transport),
      labels_(job.schedule()),
      rates_(job.solver()),
      reporter_(job, &rates_, Clock::Real(), 0),
      requests_(table.staleness()),
      pipeline_(plan_, job.schedule(), this, &transport),
      inbox_({.table = &table,
              .self = self,
              .transport = &transport,
              .gate = &gate_,
              .failure_detector = &detector_,
              .rendezvous = &rendezvous_,
              .pulls = self == 0 ? &pulls_ : nullptr}),
      exchange_places_(PlacesOf(table, self)),
      served_(plan_.groups.size()),
      updated_(plan_.groups.size()) {
  ClockEnd::Options options;
  options.requests = &requests_;
  options.pipeline = &pipeline_;
  options.on_stopped = [this](const Status&) { pipeline_.Abort(); };
  options.on_slow = [this](const SlowNode& slow) { Expect(slow.node() >= 0 && slow.node() < job_.table().size()); };
  clock_end_ = std::make_unique<ClockEnd>(std::move(options));
  if (self == 0) requests_.Keep(table.size(), -1, std::nullopt);
  for (Rank rank = 0; rank < table.size(); ++rank) {
    if (rank != self) detector_.OnConnected(rank);
  }
}

void VictimNode::Message(Rank peer, uint32_t type, const std::string& bytes) {
  inbox_.OnMessage(peer, type, std::as_bytes(std::span(bytes)));
}

void VictimNode::Granted(Rank peer, const PlaceTag& tag, size_t bytes) {
  const RemoteGrant grant{next_grant_++, 0};
  transport.granted[grant.index] = {{peer, tag}, bytes};
  inbox_.OnGranted(peer, tag, bytes, [this, peer, tag, bytes, grant] {
    if (IsExchangeTag(tag)) {
      Expect(ExchangeClock(tag) <= clocks_reported() + 2 * (job_.table().staleness() + 1));
    } else if (IsResumeTag(tag)) {
      Expect(job_.node(peer, caffe::TRAIN).params().at(SliceParam(tag)).block.count() * sizeof(float) == bytes);
    } else if (!IsSliceTag(tag)) {
      pipeline_.OnGranted(peer, tag, grant, bytes);
    }
  });
}

void VictimNode::EndGrant(size_t index, const Status& status) {
  const FuzzTransport::Open ended = transport.grants[index];
  transport.grants.erase(transport.grants.begin() + static_cast<ptrdiff_t>(index));
  if (status.code() == StatusCode::kCancelled) inbox_.OnCancelled(ended.peer);
  pipeline_.OnGrantEnded(ended.peer, ended.tag, status);
}

void VictimNode::EndWrite(size_t index, const Status& status) {
  const FuzzTransport::Open ended = transport.writes[index];
  transport.writes.erase(transport.writes.begin() + static_cast<ptrdiff_t>(index));
  pipeline_.OnWriteEnded(ended.peer, ended.tag, status);
}

void VictimNode::ConnectClient(Rank client) {
  if (self_ == 0) pulls_.OnConnected(client);
}

void VictimNode::Close(Rank peer) {
  const Status broken = Unavailable("the connection broke");
  transport.breaking.erase(peer);
  if (!transport.closed.insert(peer).second) return;
  const auto of_peer = [peer](const FuzzTransport::Open& open) { return open.peer == peer; };
  const auto next = [&of_peer](const auto& open) {
    return static_cast<size_t>(std::find_if(open.begin(), open.end(), of_peer) - open.begin());
  };
  for (size_t i; (i = next(transport.grants)) < transport.grants.size();) EndGrant(i, broken);
  for (size_t i; (i = next(transport.writes)) < transport.writes.size();) EndWrite(i, broken);
  if (peer >= kFirstClientRank && self_ == 0) pulls_.OnGone(peer);
  inbox_.OnClosed(peer);
  detector_.OnClosed(peer, broken);
}

void VictimNode::Settle() {
  while (!transport.breaking.empty() || !transport.deferred.empty()) {
    if (transport.deferred.empty()) {
      Close(*transport.breaking.begin());
      continue;
    }
    const auto event = std::move(transport.deferred.front());
    transport.deferred.pop_front();
    event();
  }
}

void VictimNode::Assemble() {
  if (std::exchange(assembled_, true)) return;
  std::set<Rank> takers;
  for (Rank rank = 0; rank < job_.table().size(); ++rank) {
    if (rank != self_) takers.insert(rank);
  }
  inbox_.StartGiving(job_, takers);
  inbox_.SetAssembled({.job = &job_,
                       .requests = &requests_,
                       .clock_end = clock_end_.get(),
                       .labels = &labels_,
                       .pipeline = &pipeline_,
                       .reporter = job_.reporter() == self_ ? &reporter_ : nullptr,
                       .exchanges = exchange_places_});
  gate_.Open();
  pipeline_.Start();
}

void VictimNode::RunTask() {
  const std::optional<Task> task = pipeline_.TryNextTask();
  if (!task) return;
  if (task->kind == Task::kBoundary) {
    (void)requests_.Take(task->clock);
    labels_.Forget(task->clock);
  }
  if (task->kind == Task::kFinishClock) {
    IterationReport report;
    report.set_clock(task->clock);
    requests_.AddRequests(&report);
    if (self_ == 0) clock_end_->OnReport(self_, report);
  }
  if (task->kind == Task::kPull) values_.push_back({task->clock, plan_.groups[task->group].stage, task->group});
  if (task->kind == Task::kUpdate) ++updated_[task->group];
  BeginExchanges(*task);
  pipeline_.Done(*task);
}

bool VictimNode::server() const { return job_.table().stage(job_.table().node(self_).parts[0].stage).server; }

void VictimNode::BeginExchanges(const Task& task) {
  if (task.kind != Task::kBackward) return;
  if (task.id != job_.schedule().TrainIds(task.clock, plan_.share).back()) return;
  for (int group = 0; group < static_cast<int>(plan_.groups.size()); ++group) {
    const ParamGroupPlan& plan = plan_.groups[group];
    const bool exchanged = plan.exchange == GroupExchange::kSum || plan.exchange == GroupExchange::kPush;
    if (exchanged && plan.segment == task.segment) exchanges_.push_back({task.clock, plan.stage, group});
  }
}

void VictimNode::FinishExchange(size_t choice) {
  if (server() && assembled_ && !served_.empty()) {
    const auto group = static_cast<int>(choice % served_.size());
    const int64_t clock = served_[group];
    // It has places for s + 1 updates.
    if (clock > updated_[group] + job_.table().staleness() || clock >= job_.schedule().shape().max_iter) return;
    ++served_[group];
    return pipeline_.OnExchanged(clock, plan_.groups[group].stage, group);
  }
  if (exchanges_.empty()) return;
  const Exchange done = exchanges_.front();
  exchanges_.pop_front();
  pipeline_.OnExchanged(done.clock, done.stage, done.group);
}

void VictimNode::FinishValues() {
  if (values_.empty()) return;
  const Exchange done = values_.front();
  values_.pop_front();
  pipeline_.OnValues(done.clock, done.stage, done.group);
}

std::span<std::byte> VictimNode::Place(int, MsgId id, int port) {
  const int64_t bytes =
      job_.schedule().SamplesOfId(id).rows * job_.node(self_, job_.schedule().PhaseOf(id)).ports().at(port).row_bytes;
  static std::vector<std::byte> memory(kPlaceBytes);  // of all nodes: nobody looks at it
  return std::span(memory).first(static_cast<size_t>(bytes));
}

bool VictimNode::InputsReady(MsgId id, int) {
  return !job_.label_readers(job_.schedule().PhaseOf(id)).contains(self_) || labels_.Ready(id, false);
}

}  // namespace fuzz
}  // namespace hp

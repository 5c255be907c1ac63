// Types and sizes are checked when a message arrives, because it may be kept until the node is assembled (Gate); what
// it says is checked when it is taken out, because only then is there a plan to compare with. A grant names the tensor
// that it is for, so it is compared with the one port, slice or place of an exchange that the plan has under that name.
#include "scheduler/control/peer_rules.h"

#include "base/format.h"
#include "scheduler/control/boundary_requests.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/membership.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/slice_tag.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr size_t kMaxNotice = 64 << 10;  // numbers and a short text
constexpr size_t kMaxReport = 1 << 20;   // with larc, 24 bytes for each of at most 40,000 parameters as well
constexpr size_t kMaxOrder = 256;
constexpr size_t kMaxLayerName = 1 << 10;
// NCCL's id of a few hundred bytes, once for each stage.
constexpr size_t kRendezvousBytes = 4 << 10;
// What a float can count without gaps is less; this keeps the conversion to an integer defined.
constexpr float kMaxLabel = 2147483648.0f;

long long Print(int64_t number) { return static_cast<long long>(number); }

/// @param said of a row, by a LabelsMessage.
Status CheckNumber(const LabelNumber& number, float said) {
  if (!number.is_count) {
    if (said >= -kMaxLabel && said < kMaxLabel) return OkStatus();
    return InvalidArgument("a label that is no class");
  }
  const int64_t most = std::ssize(number.columns);
  if (said >= 0 && said <= static_cast<float>(most) && said == std::floor(said)) return OkStatus();
  return InvalidArgument("a count of labels outside 0..%lld", static_cast<long long>(most));
}

}  // namespace

// --- Before anything is kept

Status PeerRules::CheckMessage(Rank from, uint32_t type, size_t bytes) {
  if (IsClient(from)) {
    const bool order = type == kOrderRequest && from >= kFirstControllerRank;
    if (type != kPullRequest && type != kStatusRequest && !order)
      return InvalidArgument("a message of type %u, which no client%s may send", type,
                             type == kOrderRequest ? " without the right to control the job" : "");
    if (self_ != 0) return InvalidArgument("a request for weights or the status, which only the first node answers");
    const size_t most = order ? kMaxOrder : 0;
    if (bytes > most) return InvalidArgument("a request with %zu bytes; at most %zu", bytes, most);
    return OkStatus();
  }
  const auto allow = [&](bool right_peer, size_t most) -> Status {
    if (!right_peer) return InvalidArgument("a message of type %u, which it may not send to this node", type);
    if (bytes > most) return InvalidArgument("a message of type %u with %zu bytes; at most %zu", type, bytes, most);
    return CountEarly(from, bytes);
  };
  switch (type) {
    case MemberType(MemberMessage::kHeartbeat):
    case MemberType(MemberMessage::kBye):
      return bytes == 0 ? OkStatus() : InvalidArgument("a heartbeat or BYE with %zu bytes", bytes);
    case MemberType(MemberMessage::kLost):
      return bytes <= kMaxNotice ? OkStatus() : InvalidArgument("a LOST with %zu bytes", bytes);
    case kIterationReportMessage:
      return allow(self_ == 0, kMaxReport);
    case kSnapshotCopiedMessage:
      return allow(self_ == 0 && from == table_.snapshot_copier(), kMaxNotice);
    case kSnapshotPartMessage:
      return allow(self_ == 0, kMaxNotice);
    case kVerdictMessage:
      return allow(from == 0, kMaxReport);
    case kLabelsMessage:
      return allow(ReplicaOf(from) >= 0, kMaxMessageBytes);
    case kStatisticsMessage:
      return allow(true, kMaxMessageBytes);
    case kRendezvousMessage: {
      size_t& sent = rendezvous_[from];
      sent = std::min(sent + bytes, kRendezvousBytes + 1);  // kMaxMessageBytes is far from an overflow
      return allow(ExchangesWith(from) && sent <= kRendezvousBytes, kRendezvousBytes);
    }
    default:
      return InvalidArgument("a message of unknown type %u", type);
  }
}

Status PeerRules::CountEarly(Rank from, size_t bytes) {
  MutexLock lock(&mutex_);
  if (planned_) return OkStatus();
  Early& early = early_[from];
  if (++early.messages > kMaxEarlyMessages || (early.bytes += bytes) > kMaxEarlyBytes) {
    return InvalidArgument("%d messages with %zu bytes before this node was ready", early.messages, early.bytes);
  }
  return OkStatus();
}

bool PeerRules::MarkRefused(Rank peer) {
  MutexLock lock(&mutex_);
  return refused_.insert(peer).second;
}

bool PeerRules::IsRefused(Rank peer) {
  MutexLock lock(&mutex_);
  return refused_.contains(peer);
}

void PeerRules::Forget(Rank peer) {
  MutexLock lock(&mutex_);
  refused_.erase(peer);
  early_.erase(peer);
}

Status PeerRules::CheckGranter(Rank from) const {
  return IsClient(from) ? InvalidArgument("a grant, which no client may send") : OkStatus();
}

bool PeerRules::ExchangesWith(Rank from) const {
  for (const StagePart& own : table_.node(self_).parts) {
    const auto same = [&own](const StagePart& part) { return part.stage == own.stage; };
    const auto& parts = table_.node(from).parts;
    if (table_.stage(own.stage).conv && std::any_of(parts.begin(), parts.end(), same)) return true;
  }
  return false;
}

int PeerRules::ReplicaOf(Rank from) const {
  for (const StagePart& part : table_.node(from).parts) {
    if (part.stage == 0) return part.index;
  }
  return -1;
}

// --- In an assembled node

void PeerRules::SetPlan(const JobPlan* job, int64_t start_clock, std::vector<ExchangePlaces> exchanges) {
  job_ = job;
  start_clock_ = next_verdict_ = start_clock;
  exchanges_ = ExchangeRules(std::move(exchanges), start_clock, job->schedule().shape().max_iter, table_.staleness());
  MutexLock lock(&mutex_);
  planned_ = true;
  early_.clear();
}

bool PeerRules::HasPhase(int64_t clock, bool train) const {
  const int64_t max_iter = job_->schedule().shape().max_iter;
  if (clock < start_clock_ || clock > max_iter) return false;
  return train ? clock < max_iter : job_->tests() && job_->schedule().TestsAt(clock);
}

Status PeerRules::CheckListed(MsgId id) const {
  const JobShape& shape = job_->schedule().shape();
  const int64_t batches = id.train() ? shape.iter_size : shape.test_batches();
  if (HasPhase(id.clock(), id.train()) && id.replica() < shape.replicas && id.micro() < batches * shape.micro_batches &&
      job_->schedule().SamplesOfId(id).rows > 0) {
    return OkStatus();
  }
  return InvalidArgument("message id %016llx, which the job does not have", static_cast<unsigned long long>(id.bits));
}

Status PeerRules::CheckGrant(Rank from, const PlaceTag& tag, size_t bytes, int64_t clocks_reported) {
  HP_RETURN_IF_ERROR(CheckGranter(from));
  if (IsExchangeTag(tag)) return exchanges_.Check(from, tag, bytes, clocks_reported);
  if (IsSliceTag(tag)) return CheckSlice(from, tag, bytes);
  const MsgId id{tag.msg_id};
  HP_RETURN_IF_ERROR(CheckListed(id).Prepend("a grant"));
  const int64_t turn = TurnOf(id, job_->schedule().shape().replicas);
  if (const int variant = job_->ShareOf(self_).VariantOf(turn); variant >= 0) {
    for (const PortPlan& port : job_->node(self_, job_->schedule().PhaseOf(id), variant).ports()) {
      if (port.landing || port.channel != tag.channel || port.peer(turn) != from) continue;
      const int64_t expected = job_->schedule().SamplesOfId(id).rows * port.row_bytes;
      if (static_cast<int64_t>(bytes) == expected) return OkStatus();
      return InvalidArgument("a grant of %zu bytes for channel %u; expected %lld", bytes, tag.channel, Print(expected));
    }
  }
  return InvalidArgument("a grant for channel %u of message id %016llx, which this node does not write to it",
                         tag.channel, static_cast<unsigned long long>(id.bits));
}

Status PeerRules::CheckSlice(Rank from, const PlaceTag& tag, size_t bytes) const {
  const int64_t clock = static_cast<int64_t>(tag.msg_id);
  const size_t param = SliceParam(tag);
  if (from != 0 && from != table_.snapshot_copier())
    return InvalidArgument("a grant for a slice of a snapshot, which only those who write it gather");
  if (clock < start_clock_ || clock > job_->schedule().shape().max_iter || param >= job_->params().size()) {
    return InvalidArgument("a grant for parameter %zu at iteration %lld, which the job does not have", param,
                           Print(clock));
  }
  const ParamOwners& owners = job_->params()[param];
  for (const ParamOwners::Slice& slice : owners.slices) {
    if (slice.owner != self_ || slice.block.empty() || SliceArray(tag) > job_->HistoriesOf(owners.spec)) continue;
    const int64_t expected = slice.block.count() * static_cast<int64_t>(sizeof(float));
    if (static_cast<int64_t>(bytes) == expected) return OkStatus();
    return InvalidArgument("a grant of %zu bytes for the slice of %s; expected %lld", bytes, owners.spec.name.c_str(),
                           Print(expected));
  }
  return InvalidArgument("a grant for a slice of %s, which this node does not have", owners.spec.name.c_str());
}

Status PeerRules::CheckReport(Rank from, const IterationReport& report, int64_t clocks_judged) {
  int64_t& next = next_report_.try_emplace(from, start_clock_).first->second;
  if (report.clock() != next) {
    return InvalidArgument("a report of iteration %lld; expected %lld", Print(report.clock()), Print(next));
  }
  const int64_t judged = std::max(clocks_judged, start_clock_);
  const int64_t delay = BoundaryRequests::DelayOf(table_.staleness());
  if (next >= judged + delay) {
    return InvalidArgument("a report of iteration %lld before the verdict on iteration %lld", Print(next),
                           Print(next - delay));
  }
  ++next;
  if (report.layer().size() > kMaxLayerName)
    return InvalidArgument("a report with a layer's name of %zu bytes", report.layer().size());
  if (report.computing_ns() < 0 || report.link_sent_bytes() < 0 || report.link_received_bytes() < 0)
    return InvalidArgument("a report with a negative time or number of bytes");
  if (report.node_status().sent_to_bytes_size() > table_.size())
    return InvalidArgument("a report of bytes to more nodes than the job has");
  if (!AreNorms(report.params()))
    return InvalidArgument("a report with sums of squares that are negative, or of an unknown or repeated parameter");
  return report.has_node_status() ? CheckStatus(report.node_status()) : OkStatus();
}

// A sum may be infinite or no number: that is how a training diverges.
bool PeerRules::AreNorms(const google::protobuf::RepeatedPtrField<ParamSquares>& params) const {
  std::vector<bool> seen(params.empty() ? 0 : job_->params().size(), false);
  for (const ParamSquares& param : params) {
    if (param.param() < 0 || param.param() >= std::ssize(seen) || seen[param.param()]) return false;
    if (param.gradient() < 0 || param.values() < 0) return false;
    seen[param.param()] = true;
  }
  return true;
}

Status PeerRules::CheckStatus(const NodeStatus& status) {
  constexpr int kMostWaits = 32, kMostOutputs = 1024;
  const auto& waits = status.waiting_ns();
  const auto& sent = status.sent_to_bytes();
  const auto counts = [](int64_t number) { return number >= 0; };
  const auto fits = [](const LoggedLine& line) { return line.time_s() >= 0 && line.text().size() <= kMaxLine; };
  const bool sound =
      std::min({status.at_ns(), status.computing_ns(), status.sent_bytes(), status.received_bytes(),
                status.memory_bytes(), status.last_warning_s()}) >= 0 &&
      std::min({status.solvers_free(), status.solvers_bound(), status.tasks_ready(), status.tensors_waiting()}) >= 0 &&
      waits.size() <= kMostWaits && std::all_of(waits.begin(), waits.end(), counts) &&
      std::all_of(sent.begin(), sent.end(), counts) && status.last_warning().size() <= kMaxWarning &&
      status.line_size() <= kMostLines && std::all_of(status.line().begin(), status.line().end(), fits) &&
      status.learning().test_output_size() <= kMostOutputs;
  return sound ? OkStatus() : InvalidArgument("a report whose status is out of range");
}

Status PeerRules::CheckOrder(const JobOrder& order) {
  const auto fault = [](const char* what) { return InvalidArgument("an order %s", what); };
  switch (order.kind()) {
    case JobOrder::SNAPSHOT:
    case JobOrder::STOP:
      return OkStatus();
    case JobOrder::RATE:
      return std::isfinite(order.base_lr()) && order.base_lr() > 0 ? OkStatus() : fault("for a rate that is none");
    case JobOrder::TRACE:
      return order.has_trace_on() ? OkStatus() : fault("for a trace that is neither on nor off");
    case JobOrder::NONE:
      break;
  }
  return fault("of no known kind");
}

Status PeerRules::CheckVerdict(const Verdict& verdict, int64_t clocks_reported) {
  if (verdict.clock() != next_verdict_)
    return InvalidArgument("a verdict on iteration %lld; expected %lld", Print(verdict.clock()), Print(next_verdict_));
  if (next_verdict_ >= clocks_reported)
    return InvalidArgument("a verdict on iteration %lld, which lacks this node's report", Print(next_verdict_));
  ++next_verdict_;
  const bool sound = std::isfinite(verdict.scale()) && verdict.scale() >= 0 &&
                     std::isfinite(verdict.next_loss_scale()) && verdict.next_loss_scale() > 0 &&
                     verdict.finite_updates() >= 0 && verdict.layer().size() <= kMaxLayerName &&
                     verdict.owner_files() >= 0 && AreNorms(verdict.params()) &&
                     (!verdict.has_base_lr() || (std::isfinite(verdict.base_lr()) && verdict.base_lr() > 0)) &&
                     verdict.slow_node().node() >= 0 && verdict.slow_node().node() < table_.size() &&
                     std::isfinite(verdict.slow_node().waits()) && std::isfinite(verdict.slow_node().others_wait());
  return sound ? OkStatus() : InvalidArgument("a verdict whose numbers are out of range");
}

Status PeerRules::CheckLabels(Rank from, const LabelsMessage& labels) const {
  const int replica = ReplicaOf(from);
  const bool known = labels.phase() >= 0 && labels.phase() < std::ssize(job_->phases());
  const Phase phase = known ? Phase::At(labels.phase()) : caffe::TRAIN;
  if (replica < 0 || !known || !HasPhase(labels.clock(), phase.train()) ||
      !job_->label_readers(phase).contains(self_) || labels.batch() < 0 ||
      labels.batch() >= job_->schedule().shape().batches(phase)) {
    return InvalidArgument("labels of batch %lld at iteration %lld, which it does not read for this node",
                           Print(labels.batch()), Print(labels.clock()));
  }
  const std::vector<LabelNumber>& numbers = job_->label_numbers(phase);
  const int64_t of_row = std::ssize(numbers);
  const auto [begin, end] = job_->schedule().RowsOf(phase, replica);
  if (labels.first_row() < begin || labels.first_row() > end || labels.label_size() % of_row != 0 ||
      labels.label_size() / of_row > end - labels.first_row()) {
    return InvalidArgument("%d labels, %lld in a row, from row %lld on; it reads rows %lld to %lld",
                           labels.label_size(), Print(of_row), Print(labels.first_row()), Print(begin), Print(end - 1));
  }
  for (int i = 0; i < labels.label_size(); ++i) HP_RETURN_IF_ERROR(CheckNumber(numbers[i % of_row], labels.label(i)));
  return OkStatus();
}

Status PeerRules::CheckCopied(const SnapshotCopied& copied) const {
  if (copied.iteration() >= start_clock_ && copied.iteration() <= job_->schedule().shape().max_iter) return OkStatus();
  return InvalidArgument("a copy of a snapshot of iteration %lld, which the job does not have",
                         Print(copied.iteration()));
}

Status PeerRules::CheckPart(const SnapshotPartWritten& part) const {
  const bool known = part.iteration() >= start_clock_ && part.iteration() <= job_->schedule().shape().max_iter;
  if (!known) {
    return InvalidArgument("%lld bytes of a snapshot of iteration %lld, which the job does not have",
                           Print(part.bytes()), Print(part.iteration()));
  }
  if (part.bytes() >= 0) return OkStatus();
  return InvalidArgument("%lld bytes of a part of the snapshot of iteration %lld", Print(part.bytes()),
                         Print(part.iteration()));
}

Status PeerRules::CheckStatistics(Rank from, const StatisticsMessage& statistics) const {
  const MsgId id{statistics.msg_id()};
  HP_RETURN_IF_ERROR(CheckListed(id).Prepend("statistics"));
  if (job_->reporter() != self_) return InvalidArgument("statistics for a node that does not print them");
  const int64_t turn = TurnOf(id, job_->schedule().shape().replicas);
  const int variant = job_->ShareOf(from).VariantOf(turn), stage = statistics.stage();
  const Phase phase = job_->schedule().PhaseOf(id);
  if (variant < 0 || job_->node(from, phase, variant).FindPart(stage) < 0) {
    return InvalidArgument("statistics of stage %d of a micro-batch that it does not compute there", stage);
  }
  const auto& outputs = job_->outputs(phase);
  const auto expected = std::count_if(outputs.begin(), outputs.end(),
                                      [stage](const WholeOutput& output) { return output.stage == stage; });
  if (statistics.value_size() == expected && job_->ReportingStages(phase).contains(stage)) return OkStatus();
  return InvalidArgument("%d statistics; expected %lld", statistics.value_size(), Print(expected));
}

}  // namespace hp

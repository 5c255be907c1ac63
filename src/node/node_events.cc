// What parts and peers report to a running node: each event goes on to the part that it is for. By then the node is
// assembled; what arrives earlier waits in the Gate.
#include "base/format.h"
#include "node/node.h"
#include "report/node_status.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/slice_tag.h"

#include "glog/logging.h"

namespace hp {
namespace {

constexpr int64_t kStatusNs = kNsPerSecond / 2;  // between two parts of the status

}  // namespace

void Node::AddToReport(IterationReport* report) {
  const NodeUse use = Use();
  AddUse(table_, options_.rank, use, report);
  report->set_shares_folder(shares_folder_);
  if (files_.nonce && requests_.clocks_judged() > files_.start_clock) files_.nonce.reset();  // all nodes have looked
  const int64_t now_ns = options_.clock->NowNs();
  if (status_ns_ != 0 && now_ns - status_ns_ < kStatusNs) return;
  status_ns_ = now_ns;
  *report->mutable_node_status() = MakeNodeStatus(now_ns - begun_ns_, use, pipeline_->load(), reporter_.get());
  AddLogLines(&lines_sent_, report->mutable_node_status());
}

NodeMetrics Node::metrics() const {
  NodeMetrics metrics;
  metrics.job = table_.job();
  metrics.node = info_.name;
  metrics.role = RolesOf(table_, info_);
  metrics.host = info_.host;
  metrics.training = training_;
  metrics.precision = table_.DescribePrecision(metrics.training ? precision_ : table_.config().precision());
  if (!metrics.training) return metrics;
  const int64_t done = pipeline_->clocks_done();
  metrics.iterations = files_.start_clock + done;
  metrics.images = done * RowsOf(model_->job(), table_, info_);
  metrics.status = MakeNodeStatus(options_.clock->NowNs() - begun_ns_, Use(), pipeline_->load(), reporter_.get());
  return metrics;
}

// A collective fails because a replica is lost: the failure detector finds out which one, and ends the job. All else is
// our own.
void Node::OnExchangeFailed(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return shutdown_.Fail(status);
  LOG(WARNING) << status;
  failure_detector_->OnDataFailure(options_.rank, status);
}

void Node::OnLabels(int64_t clock, Phase phase, const BatchLabels& labels) {
  const Status status = label_feed_->Add(clock, phase, labels);
  if (!status.ok()) return shutdown_.Fail(status);
  gate_.Run([this] { pipeline_->OnInputs(); });
}

void Node::OnStatistics(MsgId id, int stage, const std::vector<float>& values) {
  if (reporter_) return reporter_->Add(id, stage, values);
  StatisticsMessage message;
  message.set_msg_id(id.bits);
  message.set_stage(stage);
  message.mutable_value()->Add(values.begin(), values.end());
  Send(model_->job().reporter(), kStatisticsMessage, message);
}

// The log's last warning is part of a node's status: so hpctl shows it there as well.
void Node::OnSlow(const SlowNode& slow) {
  if (options_.rank == 0 || options_.rank == slow.node()) LOG(WARNING) << DescribeSlow(table_, options_.rank, slow);
}

bool Node::InputsReady(MsgId id, int segment) {
  const NodePlan& plan = model_->NetOf(id).plan();
  if (plan.reads_images() && segment == 0) {
    if (!files_.inputs.Of(id).Ready(id)) return false;
  }
  return !plan.reads_labels(segment) || labels_->Ready(id, plan.needs_batch_labels(segment));
}

void Node::Freed(int, MsgId id) {
  if (model_->NetOf(id).plan().reads_images()) files_.inputs.Of(id).Release(id);
}

NodeUse Node::Use() const {
  NodeUse use{pipeline_->time_use(), pipeline_->payload()};
  exchanges_.AddPayload(&use.payload);
  return use;
}

// What `hproute --check` says of an iteration, counted. Tests and snapshots are not in it.
void Node::LogPayload() const {
  Payload payload;
  for (const auto& [peer, moved] : Use().payload) payload += moved;
  LOG(INFO) << Format("node %s: sent %lld and received %lld bytes of tensors in %lld iterations", info_.name.c_str(),
                      static_cast<long long>(payload.sent), static_cast<long long>(payload.received),
                      static_cast<long long>(pipeline_->clocks_done()));
}

void Node::Send(Rank rank, uint32_t type, const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  const Status status = transport_->Send(rank, type, std::as_bytes(std::span(bytes)));
  if (!status.ok()) LOG(WARNING) << "message to node " << table_.node(rank).name << ": " << status;
}

void Node::OnConnected(Rank peer) {
  failure_detector_->OnConnected(peer);
  if (peer >= table_.size()) {
    bootstrap_->handshake()->OnConnected(peer);
    if (pulls_) pulls_->OnConnected(peer);
    return;
  }
  bootstrap_->OnConnected(peer);
  if (!copies_ || !copies_->Asks(peer)) bootstrap_->OnRouteSettled(peer);
}

void Node::OnConnectFailed(Rank peer, const Status& status) {
  if (bootstrap_->OnConnectFailed(peer)) shutdown_.Fail(status);
}

void Node::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  inbox_->OnGranted(peer, tag, bytes, [=, this] {
    if (IsResumeTag(tag)) return transfer_->OnGranted(peer, tag, grant);
    if (IsSliceTag(tag)) return snapshotter_->OnGranted(peer, tag, grant);
    if (IsExchangeTag(tag)) return exchanges_.OnGranted(peer, tag, grant);
    pipeline_->OnGranted(peer, tag, grant, bytes);
  });
}

void Node::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  if (status.code() == StatusCode::kCancelled) inbox_->OnCancelled(peer);
  if (status.ok()) trace_->OnArrived(peer, tag);
  if (IsResumeTag(tag)) return transfer_->OnGrantEnded(status);
  if (IsSliceTag(tag)) {
    return snapshotter_->OnGrantEnded(
        status.ok() ? status
                    : Unavailable("node \"%s\" ended before its part of the snapshot had arrived: %s",
                                  table_.node(peer).name.c_str(), status.message().c_str()));
  }
  if (IsExchangeTag(tag)) return exchanges_.OnGrantEnded(peer, tag, status);
  if (!status.ok()) failure_detector_->OnDataFailure(peer, status);
  pipeline_->OnGrantEnded(peer, tag, status);
}

void Node::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  trace_->OnWriteEnded(peer, tag);
  if (IsResumeTag(tag)) return transfer_->OnWriteEnded(peer, status);
  if (IsSliceTag(tag)) return snapshotter_->OnWriteEnded(tag);
  if (IsExchangeTag(tag)) return exchanges_.OnWriteEnded(peer, tag, status);
  pipeline_->OnWriteEnded(peer, tag, status);
}

void Node::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  inbox_->OnMessage(peer, type, bytes);
}

void Node::OnClosed(Rank peer, const Status& status) {
  if (peer >= table_.size()) {
    bootstrap_->handshake()->OnClientGone(peer);
    if (pulls_) pulls_->OnGone(peer);
  }
  inbox_->OnClosed(peer);
  failure_detector_->OnClosed(peer, status);
}

}  // namespace hp

#include "node/inbox.h"

#include "base/format.h"
#include "proto/parse.h"
#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/slice_tag.h"

#include "glog/logging.h"

#include <cstddef>
#include <utility>

namespace hp {
namespace {

template <typename Message>
StatusOr<Message> Parse(uint32_t type, std::span<const std::byte> bytes) {
  Message message;
  if (ParseMessage({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, &message)) return message;
  return InvalidArgument("a message of type %u that cannot be parsed", type);
}

}  // namespace

void Inbox::SetAssembled(Assembled parts) {
  rules_.SetPlan(parts.job, parts.start_clock, std::move(parts.exchanges));
  parts_ = std::move(parts);
}

void Inbox::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  if (rules_.IsRefused(peer)) return;
  if (const Status status = rules_.CheckMessage(peer, type, bytes.size()); !status.ok()) return Refuse(peer, status);
  if (peer >= early_.table->size()) return TakeRequest(peer, type, bytes);
  if (early_.failure_detector->OnMessage(peer, type, bytes)) return;
  if (type == kRendezvousMessage) {
    auto message = Parse<RendezvousMessage>(type, bytes);
    if (!message.ok()) return Refuse(peer, message.status());
    return early_.rendezvous->OnMessage(message->key(), message->value());
  }
  early_.gate->Run(
      [this, peer, type, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] { Take(peer, type, copy); });
}

void Inbox::TakeRequest(Rank client, uint32_t type, std::span<const std::byte> bytes) {
  if (type == kPullRequest) return early_.pulls->OnRequest(client);
  early_.pulls->OnOtherRequest(client);
  if (type == kStatusRequest) return early_.desk->OnStatusRequest(client);
  const auto order = Parse<JobOrder>(type, bytes);
  Status status = order.status();
  if (status.ok()) status = PeerRules::CheckOrder(*order);
  if (!status.ok()) return Refuse(client, status);
  early_.desk->OnOrder(client, *order);
}

void Inbox::OnGranted(Rank peer, const PlaceTag& tag, size_t bytes, std::function<void()> deliver) {
  if (rules_.IsRefused(peer)) return;
  if (const Status status = rules_.CheckGranter(peer); !status.ok()) return Refuse(peer, status);
  if (IsResumeTag(tag)) return OnPieceAsked(peer, tag, bytes, std::move(deliver));
  early_.gate->Run([this, peer, tag, bytes, deliver = std::move(deliver)] {
    const Status status = rules_.CheckGrant(peer, tag, bytes, parts_.requests->clocks_reported());
    if (status.ok()) return deliver();
    Refuse(peer, status);
  });
}

void Inbox::OnPieceAsked(Rank peer, const PlaceTag& tag, size_t bytes, std::function<void()> deliver) {
  if (const Status status = rules_.resume()->CheckEarly(peer); !status.ok()) return Refuse(peer, status);
  resume_gate_.Run([this, peer, tag, bytes, deliver = std::move(deliver)] {
    const Status status = rules_.resume()->Check(peer, tag, bytes);
    if (status.ok()) return deliver();
    Refuse(peer, status);
  });
}

void Inbox::StartGiving(const JobPlan& job, const std::set<Rank>& takers) {
  rules_.resume()->SetPlan(job, takers);
  resume_gate_.Open();
}

void Inbox::OnCancelled(Rank peer) { Refuse(peer, InvalidArgument("a CANCEL, which no node of a job sends")); }

void Inbox::OnClosed(Rank peer) { rules_.Forget(peer); }

void Inbox::Refuse(Rank peer, const Status& fault) {
  if (!rules_.MarkRefused(peer)) return;
  const RoutingTable& table = *early_.table;
  const std::string name = peer < table.size() ? "node " + table.node(peer).name : Format("client %d", peer);
  LOG(WARNING) << "node " << table.node(early_.self).name << ": closing the connection of " << name << ": it sent "
               << fault.message();
  early_.transport->Break(peer, Unavailable("it sent %s", fault.message().c_str()));
}

void Inbox::Take(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  const auto take = [&](const auto& message, const auto& check, const auto& deliver) {
    Status status = message.status();
    if (status.ok()) status = check(*message);
    if (!status.ok()) return Refuse(peer, status);
    deliver(*message);
  };
  switch (type) {
    case kIterationReportMessage:
      return take(
          Parse<IterationReport>(type, bytes),
          [&](const auto& report) { return rules_.CheckReport(peer, report, parts_.requests->clocks_judged()); },
          [&](const auto& report) { parts_.clock_end->OnReport(peer, report); });
    case kVerdictMessage:
      return take(
          Parse<Verdict>(type, bytes),
          [&](const auto& verdict) { return rules_.CheckVerdict(verdict, parts_.requests->clocks_reported()); },
          [&](const auto& verdict) { parts_.clock_end->OnVerdict(verdict); });
    case kLabelsMessage:
      return take(
          Parse<LabelsMessage>(type, bytes), [&](const auto& labels) { return rules_.CheckLabels(peer, labels); },
          [&](const auto& labels) {
            parts_.labels->Add(labels.clock(), Phase::At(labels.phase()), labels.batch(), labels.first_row(),
                               {labels.label().data(), static_cast<size_t>(labels.label_size())});
            parts_.pipeline->OnInputs();
          });
    case kSnapshotCopiedMessage:
      return take(
          Parse<SnapshotCopied>(type, bytes), [&](const auto& copied) { return rules_.CheckCopied(copied); },
          [&](const auto& copied) { parts_.on_copied(copied); });
    case kSnapshotPartMessage:
      return take(
          Parse<SnapshotPartWritten>(type, bytes), [&](const auto& part) { return rules_.CheckPart(part); },
          [&](const auto& part) { parts_.on_part(peer, part); });
    case kStatisticsMessage:
      return take(
          Parse<StatisticsMessage>(type, bytes),
          [&](const auto& statistics) { return rules_.CheckStatistics(peer, statistics); },
          [&](const auto& statistics) {
            parts_.reporter->Add(MsgId{statistics.msg_id()}, statistics.stage(),
                                 {statistics.value().begin(), statistics.value().end()});
          });
  }
}

}  // namespace hp

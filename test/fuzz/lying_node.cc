// Peers that passed the handshake and then say what they like, to a node with its parts (lying_node.h). Most of what
// they say is lawful, each number of it may be a lie, and the node goes on in between: it may refuse, and must not
// fall.
#include "test/fuzz/lying_node.h"

#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/membership.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/resume_rules.h"
#include "scheduler/control/slice_tag.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace hp;

namespace {

constexpr int kMostSteps = 2000;
constexpr int64_t kClocks = 4;  // whose grants and labels are said
constexpr Rank kClients = 2;

struct LawfulGrant {
  Rank peer = 0;
  PlaceTag tag;
  size_t bytes = 0;
};

struct LawfulLabels {
  int64_t clock = 0, batch = 0;
  Phase phase = caffe::TRAIN;
  int replica = 0;
};

// The places that peers grant `self`, in the order of ids.
std::vector<LawfulGrant> GrantsFor(const JobPlan& job, Rank self) {
  std::vector<LawfulGrant> grants;
  const Schedule& schedule = job.schedule();
  if (job.table().stage(job.table().node(self).parts[0].stage).server) return grants;
  for (int64_t clock = 0; clock < kClocks; ++clock) {
    for (const bool train : {false, true}) {
      const NodePlan& plan = job.node(self, train ? caffe::TRAIN : caffe::TEST);
      const IdShare& share = job.ShareOf(self);
      for (const MsgId id : train ? schedule.TrainIds(clock, share) : schedule.TestIds(clock, share)) {
        for (const PortPlan& port : plan.ports()) {
          if (port.landing) continue;
          const auto bytes = static_cast<size_t>(schedule.SamplesOfId(id).rows * port.row_bytes);
          grants.push_back({port.peer(TurnOf(id, schedule.shape().replicas)), {id.bits, port.channel}, bytes});
        }
      }
    }
  }
  return grants;
}

std::vector<LawfulLabels> LabelsOf(const JobPlan& job) {
  std::vector<LawfulLabels> labels;
  const JobShape& shape = job.schedule().shape();
  for (int64_t clock = 0; clock < kClocks; ++clock) {
    for (const Phase phase : job.phases()) {
      if (!phase.train() && !job.schedule().TestsAt(clock)) continue;
      for (int64_t batch = 0; batch < shape.batches(phase); ++batch) {
        for (int replica = 0; replica < shape.replicas; ++replica) labels.push_back({clock, batch, phase, replica});
      }
    }
  }
  return labels;
}

class Liar {
 public:
  Liar(FuzzedDataProvider* in, const JobPlan& job, Rank self, fuzz::VictimNode* node)
      : in_(*in), job_(job), self_(self), node_(*node), grants_(GrantsFor(job, self)), labels_(LabelsOf(job)) {}

  void Step() {
    const int choice = in_.ConsumeIntegralInRange(0, 31);
    if (choice < 5) return Grant();
    if (choice < 8) return Labels();
    if (choice < 10) return self_ == 0 ? Report() : SayVerdict();
    if (choice < 16) return EndGrant();
    if (choice < 20) return EndWrite();
    if (choice < 21) return node_.FinishExchange(in_.ConsumeIntegralInRange<size_t>(0, 7));
    if (choice < 22) return node_.FinishValues();
    if (choice < 24) return GrantExchange();
    if (choice < 25) return Rarely() ? Oddity() : node_.Assemble();
    for (int i = in_.ConsumeIntegralInRange(1, 8); i > 0; --i) node_.RunTask();
  }

 private:
  bool Rarely() { return in_.ConsumeIntegralInRange(0, 15) == 0; }
  // What ends a connection, or is said seldom.
  void Oddity() {
    switch (in_.ConsumeIntegralInRange(0, 7)) {
      case 0:
        return Say(Peer(), kStatisticsMessage, Statistics());
      case 1:
        return Say(Peer(), kRendezvousMessage, Rendezvous());
      case 2:
        return Say(Peer(), MemberType(MemberMessage::kLost), Lost());
      case 3:
        return GrantSlice();
      case 4:
        return node_.Close(Peer());
      case 5:
        return EndGrant(Cancelled("given back"));
      default:
        return SayAnything();
    }
  }

  // `lawful`, mostly.
  int64_t Lie(int64_t lawful) {
    switch (in_.ConsumeIntegralInRange(0, 255)) {
      case 0:
        return lawful + 1;
      case 1:
        return lawful - 1;
      case 2:
        return in_.ConsumeIntegral<int64_t>();
      case 3:
        return in_.ConsumeIntegralInRange(0, 16);
      default:
        return lawful;
    }
  }
  double LieOf(double lawful) {
    return in_.ConsumeIntegralInRange(0, 255) == 0 ? in_.ConsumeFloatingPoint<double>() : lawful;
  }
  Rank Peer() {
    const Rank rank = in_.ConsumeIntegralInRange<Rank>(0, job_.table().size() + kClients - 1);
    if (rank == self_) return (rank + 1) % job_.table().size();
    return rank < job_.table().size() ? rank : kFirstClientRank + rank - job_.table().size();
  }
  Rank PeerOr(Rank lawful) { return lawful == self_ || in_.ConsumeIntegralInRange(0, 255) == 0 ? Peer() : lawful; }

  void Say(Rank peer, uint32_t type, const google::protobuf::MessageLite& message) {
    Send(peer, type, message.SerializeAsString());
  }
  void Send(Rank peer, uint32_t type, const std::string& bytes) {
    if (node_.reachable(peer)) node_.Message(peer, type, bytes);
  }
  void SayAnything() {
    const uint32_t type = in_.ConsumeBool() ? in_.ConsumeIntegralInRange(0, 24) : in_.ConsumeIntegral<uint32_t>();
    Send(Peer(), type, in_.ConsumeRandomLengthString(100));
  }

  // Of each other node in turn, of the clocks that may be open.
  void Report() {
    const Rank others = job_.table().size() - 1;
    if (reports_ / others >= node_.clocks_judged() + BoundaryRequests::DelayOf(job_.table().staleness()) && !Rarely())
      return;
    IterationReport report;
    report.set_clock(Lie(reports_ / others));
    report.set_finite(Lie(1) == 1);
    report.set_sum_of_squares(LieOf(1));
    report.set_computing_ns(Lie(reports_));
    report.set_link_sent_bytes(Lie(reports_));
    report.set_stop(Lie(0) != 0);
    if (Lie(0) != 0) report.set_layer(in_.ConsumeRandomLengthString(20));
    Say(PeerOr(1 + static_cast<Rank>(reports_ % others)), kIterationReportMessage, report);
    ++reports_;
  }
  void SayVerdict() {
    if (verdicts_ >= node_.clocks_reported() && !Rarely()) return;
    Verdict verdict;
    verdict.set_clock(Lie(verdicts_++));
    verdict.set_scale(LieOf(1));
    verdict.set_next_loss_scale(LieOf(1));
    verdict.set_status(static_cast<int32_t>(Lie(0)));
    verdict.set_stop(Lie(0) != 0);
    verdict.set_skip(Lie(0) != 0);
    Say(PeerOr(0), kVerdictMessage, verdict);
  }
  void Labels() {
    if (labels_said_ == labels_.size() || !job_.label_readers(caffe::TRAIN).contains(self_)) return;
    const LawfulLabels& next = labels_[labels_said_++];
    const JobShape& shape = job_.schedule().shape();
    const int64_t rows = shape.batch(next.phase) / shape.replicas;
    LabelsMessage labels;
    labels.set_clock(Lie(next.clock));
    labels.set_phase(static_cast<int>(Lie(next.phase.index())));
    labels.set_batch(Lie(next.batch));
    labels.set_first_row(Lie(next.replica * rows));
    for (int64_t i = std::min<int64_t>(Lie(rows), 100); i > 0; --i) labels.add_label(static_cast<float>(LieOf(1)));
    Say(PeerOr(job_.table().rank_of(0, next.replica)), kLabelsMessage, labels);
  }
  StatisticsMessage Statistics() {
    StatisticsMessage statistics;
    statistics.set_msg_id(static_cast<uint64_t>(Lie(static_cast<int64_t>(MsgId::Make(0, true, 0, 0).bits))));
    for (int64_t i = std::min<int64_t>(Lie(1), 100); i > 0; --i) statistics.add_value(1);
    return statistics;
  }
  RendezvousMessage Rendezvous() {
    RendezvousMessage message;
    message.set_key(in_.ConsumeRandomLengthString(10));
    message.set_value(in_.ConsumeRandomLengthString(10));
    return message;
  }
  LostNotice Lost() {
    LostNotice notice;
    notice.set_lost(static_cast<int32_t>(Lie(1)));
    notice.set_detector(static_cast<int32_t>(Lie(2)));
    notice.set_cause(in_.ConsumeRandomLengthString(20));
    notice.set_status(static_cast<int32_t>(Lie(0)));
    return notice;
  }

  // A place for a tensor that the node sends: the next one, or (once more) one before it.
  void Grant() {
    if (grants_.empty()) return;
    const size_t index = Rarely() ? in_.ConsumeIntegralInRange<size_t>(0, grants_.size() - 1) : granted_++;
    if (index >= grants_.size()) return;
    const LawfulGrant& grant = grants_[index];
    const Rank peer = PeerOr(grant.peer);
    if (!node_.reachable(peer)) return;
    const PlaceTag tag{static_cast<uint64_t>(Lie(static_cast<int64_t>(grant.tag.msg_id))),
                       static_cast<uint32_t>(Lie(grant.tag.channel))};
    node_.Granted(peer, tag, static_cast<size_t>(Lie(static_cast<int64_t>(grant.bytes))));
  }
  // The next place for gradients, all of them update by update.
  void GrantExchange() {
    const std::vector<ExchangePlaces>& exchanges = node_.exchange_places();
    if (exchanges.empty()) return;
    const size_t of_update = 2 * exchanges.size(), next = gradients_granted_++;
    const ExchangePlaces& places = exchanges[next % of_update / 2];
    const auto number = static_cast<uint32_t>(Lie(next % 2 == 0 ? 0 : 2));
    const auto clock = static_cast<uint64_t>(Lie(static_cast<int64_t>(next / of_update)));
    const Rank peer = PeerOr(places.granter);
    if (!node_.reachable(peer)) return;
    const size_t bytes = number < places.bytes.size() ? places.bytes[number] : 8;
    node_.Granted(peer, ExchangeTag(static_cast<int>(Lie(places.stage)), clock & 0xffffffff, number),
                  static_cast<size_t>(Lie(static_cast<int64_t>(bytes))));
  }
  void GrantSlice() {
    const Rank peer = Peer();
    if (!node_.reachable(peer)) return;
    if (Rarely()) return AskForPiece(peer);
    const size_t param = in_.ConsumeIntegralInRange<size_t>(0, job_.params().size());
    node_.Granted(peer, SliceTag(Lie(1), param, in_.ConsumeIntegralInRange<int>(0, 3)),
                  in_.ConsumeIntegralInRange<size_t>(0, 4096));
  }
  // The next piece of a snapshot that the job resumes from.
  void AskForPiece(Rank peer) {
    if (peer >= job_.table().size()) return node_.Granted(peer, ResumeTag(0, 0), 4);
    const std::vector<ResumePiece> pieces = ResumePiecesOf(job_, peer);
    const size_t next = pieces_asked_[peer]++;
    if (next >= pieces.size()) return;
    const auto param = static_cast<size_t>(Lie(pieces[next].param)) & 0x3fffffff;
    node_.Granted(peer, ResumeTag(param, pieces[next].array),
                  static_cast<size_t>(Lie(pieces[next].count * static_cast<int64_t>(sizeof(float)))));
  }
  void EndGrant(const Status& status = OkStatus()) {
    if (node_.transport.grants.empty()) return;
    node_.EndGrant(in_.ConsumeIntegralInRange<size_t>(0, node_.transport.grants.size() - 1), status);
  }
  void EndWrite() {
    if (node_.transport.writes.empty()) return;
    node_.EndWrite(in_.ConsumeIntegralInRange<size_t>(0, node_.transport.writes.size() - 1), OkStatus());
  }

  FuzzedDataProvider& in_;
  const JobPlan& job_;
  const Rank self_;
  fuzz::VictimNode& node_;
  const std::vector<LawfulGrant> grants_;
  const std::vector<LawfulLabels> labels_;
  // Said so far.
  std::map<Rank, size_t> pieces_asked_;
  size_t granted_ = 0, gradients_granted_ = 0, labels_said_ = 0;
  int64_t reports_ = 0, verdicts_ = 0;
};

/// What a node may be in: with a ring and with servers, synchronous and not.
struct FuzzJob {
  explicit FuzzJob(const std::string& text) : table(MakeTable(text)), job(SmallJob(table)) {}
  const RoutingTable table;
  const std::unique_ptr<JobPlan> job;
};

const FuzzJob& JobOf(int number) {
  static const FuzzJob jobs[] = {FuzzJob(kTable), FuzzJob(std::string(kTable) + "staleness: 1"),
                                 FuzzJob(std::string(kTable) + "staleness: 2"), FuzzJob(kServedTable),
                                 FuzzJob(std::string(kServedTable) + "staleness: 2")};
  return jobs[static_cast<size_t>(number) % std::size(jobs)];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider in(data, size);
  const auto& [table, job] = JobOf(in.ConsumeIntegralInRange(0, 4));
  const Rank self = in.ConsumeIntegralInRange<Rank>(0, table.size() - 1);
  fuzz::VictimNode node(table, *job, self);
  for (Rank client = 0; client < kClients; ++client) node.ConnectClient(kFirstClientRank + client);
  if (in.ConsumeIntegralInRange(0, 3) != 0) node.Assemble();
  Liar liar(&in, *job, self, &node);
  for (int step = 0; step < kMostSteps && in.remaining_bytes() > 0; ++step) {
    liar.Step();
    node.Settle();
  }
  return 0;
}

// Messages are answered on the progress thread, from what is known; only planning, which may take seconds, happens on
// the thread of Serve, and meanwhile all who ask are told to wait.
#include "rendezvous/table_server.h"

#include "base/format.h"
#include "base/host.h"

#include <glog/logging.h>

#include <chrono>

namespace hp {
namespace {

constexpr std::chrono::milliseconds kLookAgain(100);
constexpr int64_t kProgressNs = 15 * kNsPerSecond;

std::string StoredName(int incarnation) { return Format("table.%d", incarnation); }

}  // namespace

TableServer::TableServer(TableServerOptions options, RendezvousStore* store, Transport* transport)
    : options_(std::move(options)),
      store_(store),
      transport_(transport),
      seal_(kServerSealRun, options_.keys),
      store_seal_(options_.run, options_.keys),
      handshake_(true),
      roster_(options_.wanted, "", options_.clock) {}

Status TableServer::ReadTables() {
  MutexLock lock(&mutex_);
  while (true) {
    const int next = roster_.table() ? roster_.table()->incarnation() + 1 : 1;
    HP_ASSIGN_OR_RETURN(const std::optional<std::string> entry, store_->ReadTable(next));
    if (!entry) break;
    const StatusOr<std::string> body = store_seal_.Open(StoredName(next), *entry);
    if (!body.ok()) return body.status().Prepend(store_->name());
    const StatusOr<TableRecord> table = ParseTableRecord(*body);
    if (!table.ok()) return table.status().Prepend(store_->name() + ": " + StoredName(next));
    roster_.SetTable(*table);
  }
  if (!roster_.table()) return OkStatus();
  LOG(INFO) << "goes on with incarnation " << roster_.table()->incarnation();
  if (options_.on_table) options_.on_table(*roster_.table());
  return OkStatus();
}

Status TableServer::Serve() {
  HP_RETURN_IF_ERROR(ReadTables());
  HP_RETURN_IF_ERROR(transport_->Start(this, &handshake_));
  Status status;
  while (status.ok()) {
    std::vector<NodeRecord> due;
    {
      MutexLock lock(&mutex_);
      if (stop_) break;
      due = roster_.DueNodes();
      if (due.empty()) changed_.WaitFor(&mutex_, kLookAgain);
      LogProgress();
    }
    if (!due.empty()) status = Plan(due);
  }
  transport_->Stop();
  return status;
}

void TableServer::Stop() {
  MutexLock lock(&mutex_);
  stop_ = true;
  changed_.SignalAll();
}

Status TableServer::Plan(const std::vector<NodeRecord>& due) {
  StatusOr<TableRecord> planned = options_.planner(due);
  MutexLock lock(&mutex_);
  if (!planned.ok()) {
    LOG(ERROR) << "no table for " << due.size() << " nodes: " << planned.status().message();
    for (const NodeRecord& record : due) {
      unplanned_[record.nonce()] = "hpserver can't plan: " + planned.status().message();
      roster_.Forget(record.nonce());
    }
    return OkStatus();
  }
  TableRecord table = *std::move(planned);
  table.set_run_id(options_.run);
  table.set_incarnation(roster_.table() ? roster_.table()->incarnation() + 1 : 1);
  table.set_writer(NewNonce());
  for (const NodeRecord& rest : roster_.WaitingBeside(due)) table.add_unneeded(rest.nonce());
  const std::string name = StoredName(table.incarnation());
  HP_ASSIGN_OR_RETURN(const bool created,
                      store_->CreateTable(table.incarnation(), store_seal_.Seal(name, table.SerializeAsString())));
  if (!created) {
    return FailedPrecondition("%s: %s is there already: another hpserver has this folder", store_->name().c_str(),
                              name.c_str());
  }
  roster_.SetTable(table);
  if (options_.on_table) options_.on_table(table);
  LOG(INFO) << "incarnation " << table.incarnation() << ": a table for " << table.seat_size() << " nodes";
  for (const std::string& gone : roster_.Forgettable()) {
    roster_.Forget(gone);
    logged_.erase(gone);
  }
  return OkStatus();
}

void TableServer::LogProgress() {
  const int64_t now_ns = options_.clock->NowNs();
  if (now_ns < next_progress_ns_) return;
  next_progress_ns_ = now_ns + kProgressNs;
  const std::string progress = roster_.Progress();
  if (!progress.empty()) LOG(INFO) << progress;
}

void TableServer::LogChange(const NodeRecord& record) {
  const auto [it, added] = logged_.try_emplace(record.nonce(), record);
  if (!added && it->second.state() == record.state()) return;
  it->second = record;
  const std::string who = Format("%s of %s (%s)", record.role().empty() ? "a node" : record.role().c_str(),
                                 Printable(record.host_name(), 100).c_str(),
                                 HostPort(Printable(record.address(0), 100), record.port()).c_str());
  if (record.state() == NodeRecord::WAITING) LOG(INFO) << who << " asks for a table";
  if (record.state() == NodeRecord::RUNNING) LOG(INFO) << who << " runs in incarnation " << record.incarnation();
  if (record.state() == NodeRecord::ENDED) {
    LOG(INFO) << who << " ended with status " << record.exit_status() << " at iteration " << record.iteration();
  }
}

RendezvousAnswer TableServer::AnswerTo(const NodeRecord& record) {
  RendezvousAnswer refusal;
  refusal.set_kind(RendezvousAnswer::REFUSED);
  if (!record.run_id().empty() && record.run_id() != options_.run) {
    refusal.set_text(
        Format("hpserver has the run \"%s\", and this node asks for \"%s\" (--run_id); each run has an hpserver "
               "of its own, and its nodes may leave --run_id out",
               options_.run.c_str(), Printable(record.run_id(), 100).c_str()));
    return refusal;
  }
  if (!record.request().empty()) {
    refusal.set_text("hpserver plans; leave out " + record.request());
    return refusal;
  }
  MutexLock lock(&mutex_);
  if (const auto it = unplanned_.find(record.nonce()); it != unplanned_.end()) {
    refusal.set_text(it->second);
    return refusal;
  }
  roster_.Hear(record);
  if (!roster_.Knows(record.nonce())) {
    refusal.set_text(Format("hpserver serves %d processes already", kMostRendezvousNodes));
    return refusal;
  }
  LogChange(record);
  changed_.SignalAll();
  return roster_.AnswerTo(record.nonce());
}

void TableServer::OnGranted(Rank peer, const PlaceTag&, RemoteGrant, size_t) {
  transport_->Break(peer, DataLoss("it granted a place, which hpserver never asks for"));
}

void TableServer::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  const StatusOr<NodeRecord> record = ReadTell(seal_, type, bytes);
  if (!record.ok()) return transport_->Break(peer, record.status());
  nonces_[peer] = record->nonce();
  RendezvousAnswer answer = AnswerTo(*record);
  answer.set_beat(record->beat());
  answer.set_text(answer.text().substr(0, 2000));
  const std::string sealed = seal_.Seal("answer." + record->nonce(), answer.SerializeAsString());
  const Status sent = transport_->Send(peer, kAnswerMessage, std::as_bytes(std::span(sealed)));
  if (!sent.ok()) transport_->Break(peer, sent);
}

void TableServer::OnClosed(Rank peer, const Status&) {
  const auto it = nonces_.find(peer);
  if (it == nonces_.end()) return;
  MutexLock lock(&mutex_);
  roster_.Leave(it->second);
  nonces_.erase(it);
}

}  // namespace hp

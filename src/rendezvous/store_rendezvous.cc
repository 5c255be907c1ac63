#include "rendezvous/store_rendezvous.h"

#include "base/format.h"
#include "base/thread.h"

#include <glog/logging.h>

#include <chrono>
#include <future>

namespace hp {
namespace {

constexpr std::chrono::seconds kRenewEach(1);

std::string NodeEntry(const std::string& nonce) { return "node." + nonce; }
std::string TableEntry(int incarnation) { return Format("table.%d", incarnation); }

}  // namespace

StoreRendezvous::StoreRendezvous(std::unique_ptr<RendezvousStore> store, StoreRendezvousOptions options)
    : store_(std::move(store)),
      options_(std::move(options)),
      seal_(options_.run, options_.keys),
      roster_(options_.wanted, options_.request, options_.clock) {}

StatusOr<std::optional<TableRecord>> StoreRendezvous::ReadTable(int incarnation) {
  HP_ASSIGN_OR_RETURN(const std::optional<std::string> entry, store_->ReadTable(incarnation));
  if (!entry) return std::optional<TableRecord>();
  const StatusOr<std::string> body = seal_.Open(TableEntry(incarnation), *entry);
  if (!body.ok()) return body.status().Prepend(name());
  StatusOr<TableRecord> table = ParseTableRecord(*body);
  if (!table.ok()) return table.status().Prepend(name() + ": " + TableEntry(incarnation));
  if (table->incarnation() != incarnation) return DataLoss("%s: a table of another number", name().c_str());
  return std::optional(*std::move(table));
}

Status StoreRendezvous::Look() {
  HP_ASSIGN_OR_RETURN(const auto nodes, store_->ReadNodes());
  for (const auto& [nonce, entry] : nodes) {
    const StatusOr<std::string> body = seal_.Open(NodeEntry(nonce), entry);
    const StatusOr<NodeRecord> record = body.ok() ? ParseNodeRecord(*body) : body.status();
    if (record.ok() && record->nonce() == nonce) {
      roster_.Hear(*record);
    } else if (wrong_.size() < 100 && wrong_.try_emplace(nonce, record.status().message()).second) {
      LOG(WARNING) << name() << ": left out: " << record.status().message();
    }
  }
  // A table that somebody put there stands for all incarnations.
  if (!roster_.table()) {
    HP_ASSIGN_OR_RETURN(const std::optional<TableRecord> table, ReadTable(0));
    if (table) roster_.SetTable(*table);
  }
  if (roster_.table() && roster_.table()->incarnation() == 0) return OkStatus();
  while (true) {
    HP_ASSIGN_OR_RETURN(const auto next, ReadTable(roster_.table() ? roster_.table()->incarnation() + 1 : 1));
    if (!next) return OkStatus();
    roster_.SetTable(*next);
  }
}

StatusOr<TableRecord> StoreRendezvous::PlanUnderLease(int incarnation, const std::vector<NodeRecord>& due,
                                                      NodeRecord* record) {
  std::promise<StatusOr<TableRecord>> promise;
  std::future<StatusOr<TableRecord>> planned = promise.get_future();
  const Thread thread("planner", [&] { promise.set_value(options_.planner(due)); });
  while (planned.wait_for(kRenewEach) == std::future_status::timeout) {
    // Without the lease another one plans as well, and the first table counts.
    (void)store_->HoldLease(incarnation, record->nonce()).ok();
    (void)Say(record).ok();
  }
  return planned.get();
}

Status StoreRendezvous::Plan(NodeRecord* record) {
  const std::string& nonce = record->nonce();
  if (!options_.planner) return OkStatus();
  const int incarnation = roster_.table() ? roster_.table()->incarnation() + 1 : 1;
  const std::vector<NodeRecord> due = roster_.DueNodes();
  if (due.empty()) return OkStatus();
  HP_ASSIGN_OR_RETURN(const bool held, store_->HoldLease(incarnation, nonce));
  if (!held) return OkStatus();
  HP_ASSIGN_OR_RETURN(TableRecord table, PlanUnderLease(incarnation, due, record));
  table.set_run_id(options_.run);
  table.set_incarnation(incarnation);
  table.set_request(options_.request);
  table.set_writer(nonce);
  for (const NodeRecord& rest : roster_.WaitingBeside(due)) table.add_unneeded(rest.nonce());
  HP_ASSIGN_OR_RETURN(const bool created,
                      store_->CreateTable(incarnation, seal_.Seal(TableEntry(incarnation), table.SerializeAsString())));
  // Else another one was as quick: its table is read next.
  if (created) LOG(INFO) << name() << ": incarnation " << incarnation << " has " << table.seat_size() << " nodes";
  HP_RETURN_IF_ERROR(Look());
  for (const std::string& gone : roster_.Forgettable()) {
    roster_.Forget(gone);
    HP_RETURN_IF_ERROR(store_->RemoveNode(gone));
  }
  return OkStatus();
}

Status StoreRendezvous::Say(NodeRecord* record) {
  record->set_beat(++beat_);
  const std::string& nonce = record->nonce();
  HP_RETURN_IF_ERROR(store_->PutNode(nonce, seal_.Seal(NodeEntry(nonce), record->SerializeAsString())));
  roster_.Hear(*record);
  return OkStatus();
}

StatusOr<RendezvousAnswer> StoreRendezvous::Tell(NodeRecord record) {
  record.set_run_id(options_.run);
  HP_RETURN_IF_ERROR(Say(&record));
  RendezvousAnswer answer;
  if (record.state() != NodeRecord::WAITING) return answer;
  HP_RETURN_IF_ERROR(Look());
  HP_RETURN_IF_ERROR(Plan(&record));
  if (!roster_.Knows(record.nonce())) {
    return ResourceExhausted("%s: has entries of %d processes already", name().c_str(), kMostRendezvousNodes);
  }
  answer = roster_.AnswerTo(record.nonce());
  answer.set_beat(record.beat());
  return answer;
}

Status PutTable(RendezvousStore* store, const std::string& run, const std::optional<JobKeys>& keys,
                const RoutingTableConfig& config) {
  TableRecord table;
  table.set_run_id(run);
  *table.mutable_config() = config;
  table.set_incarnation(0);
  table.set_writer(NewNonce());
  const EntrySeal seal(run, keys);
  HP_ASSIGN_OR_RETURN(const bool created, store->CreateTable(0, seal.Seal(TableEntry(0), table.SerializeAsString())));
  if (created) return OkStatus();
  return FailedPrecondition("%s has a table already; choose another --run_id", store->name().c_str());
}

}  // namespace hp

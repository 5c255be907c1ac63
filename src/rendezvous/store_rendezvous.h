#pragma once

#include "rendezvous/entry.h"
#include "rendezvous/job_rendezvous.h"
#include "rendezvous/store.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// How to take part in a rendezvous over a store.
struct StoreRendezvousOptions {
  std::string run;                    ///< the run id
  std::optional<JobKeys> keys;        ///< of the job's token; none: entries carry no HMAC
  std::optional<NodesWanted> wanted;  ///< what `planner` needs; none: this process does not plan
  TablePlanner planner;               ///< null: likewise
  std::string request;                ///< NodeRecord::request of those that plan alike
  const Clock* clock = Clock::Real();
};

/// The rendezvous without a server of ours: each process that waits reads all entries, and of those that may plan the
/// one with the lease makes the table when it is due.
class StoreRendezvous : public JobRendezvous {
 public:
  StoreRendezvous(std::unique_ptr<RendezvousStore> store, StoreRendezvousOptions options);

  StatusOr<RendezvousAnswer> Tell(NodeRecord record) override;
  std::string name() const override { return store_->name(); }

 private:
  /// Reads the newest table, and all records.
  Status Look();
  StatusOr<std::optional<TableRecord>> ReadTable(int incarnation);
  Status Say(NodeRecord* record);
  /// Makes the next table if it is due and this process has the lease.
  Status Plan(NodeRecord* record);
  /// Calls the planner on a thread of its own, and meanwhile renews the lease and the record each second.
  StatusOr<TableRecord> PlanUnderLease(int incarnation, const std::vector<NodeRecord>& due, NodeRecord* record);

  const std::unique_ptr<RendezvousStore> store_;
  const StoreRendezvousOptions options_;
  const EntrySeal seal_;
  Roster roster_;
  uint64_t beat_ = 0;
  std::map<std::string, std::string> wrong_;  // entries that can't be opened, by nonce, and why: warned of once
};

/// Puts a table there for whoever asks (incarnation 0), as often as the job starts.
/// @return kFailedPrecondition: the run has another table already.
Status PutTable(RendezvousStore* store, const std::string& run, const std::optional<JobKeys>& keys,
                const RoutingTableConfig& config);

}  // namespace hp

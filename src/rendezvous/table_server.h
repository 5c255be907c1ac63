#pragma once

#include "base/mutex.h"

#include "rendezvous/job_rendezvous.h"
#include "rendezvous/server_messages.h"
#include "rendezvous/store.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// What hpserver is told.
struct TableServerOptions {
  std::string run;              ///< the run id; a record with another one is refused
  std::optional<JobKeys> keys;  ///< of the job's token; none: whoever connects is believed
  NodesWanted wanted;           ///< what `planner` needs
  TablePlanner planner;         ///< called on the thread of Serve; may take long
  /// Called with each table when it becomes the newest one, that of the folder too; on the thread of Serve. May be
  /// null.
  std::function<void(const TableRecord&)> on_table = nullptr;
  const Clock* clock = Clock::Real();
};

/// Hands out the tables of one run: waits until enough processes have asked, plans, gives each the table, hears how it
/// goes, and plans the next incarnation for those that ask again. Tables lie in its folder: a server that is started
/// again reads them there. It takes no part in the job. README.md has the rules.
class TableServer : public TransportHandler {
 public:
  /// @param store where its tables are; only CreateTable and ReadTable are called. @param transport with a listener and
  /// no peers; not started. Both are the server's until Serve returns, and then may go.
  TableServer(TableServerOptions options, RendezvousStore* store, Transport* transport);

  /// Reads the newest table, starts the transport, and serves until Stop. @return kFailedPrecondition, kDataLoss: the
  /// tables of the folder are not this run's, or can't be read; kUnavailable: it can't write there; the transport's.
  Status Serve() HP_EXCLUDES(mutex_);
  /// Has Serve return. Any thread.
  void Stop() HP_EXCLUDES(mutex_);

 private:
  Status ReadTables() HP_EXCLUDES(mutex_);
  /// Plans for those that are due and hands the table out.
  Status Plan(const std::vector<NodeRecord>& due) HP_EXCLUDES(mutex_);
  RendezvousAnswer AnswerTo(const NodeRecord& record) HP_EXCLUDES(mutex_);
  /// Logs every 15 s how far the job is.
  void LogProgress() HP_REQUIRES(mutex_);
  void LogChange(const NodeRecord& record) HP_REQUIRES(mutex_);

  // TransportHandler
  void OnConnected(Rank) override {}
  void OnConnectFailed(Rank, const Status&) override {}
  void OnGranted(Rank peer, const PlaceTag&, RemoteGrant, size_t) override;
  void OnGrantEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override HP_EXCLUDES(mutex_);
  void OnClosed(Rank peer, const Status& status) override HP_EXCLUDES(mutex_);

  const TableServerOptions options_;
  RendezvousStore* const store_;
  Transport* const transport_;
  const EntrySeal seal_, store_seal_;
  ServerHandshake handshake_;
  std::map<Rank, std::string> nonces_;  // of each connection that has spoken. Progress thread
  Mutex mutex_;
  CondVar changed_;
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  int64_t next_progress_ns_ HP_GUARDED_BY(mutex_) = 0;
  Roster roster_ HP_GUARDED_BY(mutex_);
  std::map<std::string, std::string> unplanned_ HP_GUARDED_BY(mutex_);  // nonces, and why they get no table
  std::map<std::string, NodeRecord> logged_ HP_GUARDED_BY(mutex_);      // what was logged last, by nonce
};

}  // namespace hp

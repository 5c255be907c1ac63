// How a snapshot or a pull of iteration t comes about, without anybody waiting for anybody:
//   1. The verdict of t - 2, or the solver's interval, has all nodes begin it at the boundary in front of clock t. Each
//      copies the slices that it owns (Begin), and goes on to train.
//   2. A node that writes (the first, or its copier: RoutingTable::snapshot_writers) grants places for all slices of t
//      when it is done with the version before; a node writes a slice when it has both the copy and the grant,
//      whichever comes first, and gives the copy up when all of it is sent.
//   3. The last slice's arrival hands the model to the snapshot thread, or to the server of pulls.
//   4. The snapshot thread writes the files, and renames them into place when the verdict of t - 1 is there; the first
//      node's also waits until the copier has renamed its own.
// Versions that come faster than this go on wait in front of step 2: a few copies on each node. When there is no room
// for one more, the boundary that needs it is not ready, which the pipeline is told by HasRoom and on_room. That can't
// deadlock: consider the oldest version that is not gathered. Its boundary has room on each node, because all before it
// are sent; nodes that have passed it have done their part of all work in front of it; so every node reaches it.
//
// Where all nodes have proven that they have one folder (Verdict.owner_files says so for each boundary, alike on all
// nodes), a snapshot takes no part in this: each node's PartWriter writes what it owns, and the first node's
// SnapshotCompleter makes a snapshot of the files. A boundary waits for room in the PartWriter, which waits for nothing
// but its disk, and on the first node in the completer, which also waits for the files of versions whose boundaries the
// first node has passed: by the argument above all nodes reach these. Pulls go the way above.
#include "snapshot/snapshotter.h"

#include "base/clock.h"

#include <utility>

namespace hp {

Snapshotter::Snapshotter(const std::vector<WholeParam>& params, ParamStore* store, Transport* transport,
                         Options options)
    : on_room_(std::move(options.on_room)),
      on_written_(std::move(options.on_written)),
      gathers_pulls_(options.rank == 0) {
  MakePartWriter(params, store, options);
  const bool writes = std::erase(options.writers, options.rank) > 0;
  if (!options.writers.empty()) {
    sender_ = std::make_unique<SliceSender>(options.rank, options.writers, params, store, transport);
  }
  if (!writes) return;
  options.files.on_written = [this](int64_t iteration) {
    OnWritten(iteration);
    gatherer_->OnWritten();
  };
  writer_ = std::make_unique<SnapshotWriter>(std::move(options.files));
  gatherer_ = std::make_unique<SliceGatherer>(options.rank, params, store, transport, writer_.get(),
                                              SliceGatherer::Options{std::move(options.on_pulled), on_room_});
}

// Before the options are given away.
void Snapshotter::MakePartWriter(const std::vector<WholeParam>& params, ParamStore* store, const Options& options) {
  PartWriter::Options parts;
  parts.rank = options.rank;
  parts.prefix = options.files.prefix;
  parts.retry_ms = options.files.retry_ms;
  parts.before_step = options.files.before_step;
  parts.on_written = options.send_part;
  parts.on_room = on_room_;
  if (options.rank == 0) {
    SnapshotWriter::Options files = options.files;
    files.on_written = [this](int64_t iteration) { OnWritten(iteration); };
    completer_ = std::make_unique<SnapshotCompleter>(params, std::move(files), on_room_);
    parts.on_written = [this](const SnapshotPartWritten& written) { completer_->OnPart(0, written); };
  }
  part_writer_ = std::make_unique<PartWriter>(params, store, std::move(parts));
}

Snapshotter::~Snapshotter() {
  if (writer_) writer_->Stop();  // its thread calls the gatherer
}

bool Snapshotter::HasRoom(bool files, int64_t start) const {
  if (start > 0 && (!part_writer_->HasRoom() || (completer_ && !completer_->HasRoom()))) return false;
  const bool gathered = files && start == 0;
  const bool gathers = gatherer_ && (gathered || gathers_pulls_);
  return (!sender_ || sender_->HasRoom()) && (!gathers || gatherer_->HasRoom(gathered));
}

Status Snapshotter::Begin(int64_t clock, int64_t version, bool files, bool pull,
                          const std::optional<LossScalingState>& loss_scaling, int64_t start) {
  if (files) {
    in_parts_ = start > 0;
    MutexLock lock(&mutex_);
    if (on_written_) begun_ns_[clock] = Clock::Real()->NowNs();
  }
  if (files && start > 0) {
    if (completer_) completer_->Begin(clock, loss_scaling);
    HP_RETURN_IF_ERROR(part_writer_->Begin(clock, version, start));
    files = false;
    if (!pull) return OkStatus();
  }
  if (sender_) HP_RETURN_IF_ERROR(sender_->Copy(clock, version, files));
  pull &= gathers_pulls_;
  if (!gatherer_ || (!files && !pull)) return OkStatus();
  return gatherer_->Begin(clock, version, files, pull, loss_scaling);
}

void Snapshotter::OnWritten(int64_t iteration) {
  if (!on_written_) return;
  int64_t begun_ns = 0;
  {
    MutexLock lock(&mutex_);
    const auto begun = begun_ns_.find(iteration);
    if (begun == begun_ns_.end()) return;  // of an earlier start, merged now
    begun_ns = begun->second;
    begun_ns_.erase(begun);
  }
  on_written_(Clock::Real()->NowNs() - begun_ns);
}

void Snapshotter::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant) {
  if (sender_) sender_->OnGranted(peer, tag, grant);
}

void Snapshotter::OnGrantEnded(const Status& status) {
  if (gatherer_) gatherer_->OnGrantEnded(status);
}

void Snapshotter::OnWriteEnded(const PlaceTag& tag) {
  if (sender_ && sender_->OnWriteEnded(tag)) on_room_();
}

void Snapshotter::OnVerdict(int64_t clock) {
  if (writer_) writer_->OnVerdict(clock);
  if (completer_) completer_->OnVerdict(clock);
}

void Snapshotter::OnCopied(int64_t iteration, const Status& status) {
  if (writer_) writer_->OnCopied(iteration, status);
}

void Snapshotter::OnPart(Rank owner, const SnapshotPartWritten& written) {
  if (completer_) completer_->OnPart(owner, written);
}

void Snapshotter::Abort(const Status& cause) {
  if (completer_) completer_->Abort(cause);
}

Status Snapshotter::Finish() {
  part_writer_->SetLastAttempt();
  part_writer_->WaitUntilDone();
  if (sender_) sender_->WaitUntilSent();
  if (!writer_) return OkStatus();
  writer_->SetLastAttempt();
  HP_RETURN_IF_ERROR(gatherer_->WaitUntilDone());
  const Status in_parts = completer_ ? completer_->WaitUntilDone() : OkStatus();
  return in_parts_ && completer_ ? in_parts : writer_->last();
}

}  // namespace hp

// How a snapshot or a pull of iteration t comes about, without anybody waiting for anybody:
//   1. The verdict of t - 2, or the solver's interval, has all nodes begin it at the boundary in front of clock t. Each
//      copies the slices that it owns (Begin), and goes on to train.
//   2. A node that writes (the first, or its copier: RoutingTable::snapshot_writers) grants places for all slices of t
//   when it is done with the version before; a node writes a slice
//      when it has both the copy and the grant, whichever comes first, and gives the copy up when all of it is sent.
//   3. The last slice's arrival hands the model to the snapshot thread, or to the server of pulls.
//   4. The snapshot thread writes the files, and renames them into place when the verdict of t - 1 is there; the first
//      node's also waits until the copier has renamed its own.
// Versions that come faster than this go on wait in front of step 2: a few copies on each node. When there is no room
// for one more, the boundary that needs it is not ready, which the pipeline is told by HasRoom and on_room. That can't
// deadlock: consider the oldest version that is not gathered. Its boundary has room on each node, because all before it
// are sent; nodes that have passed it have done their part of all work in front of it; so every node reaches it.
#include "snapshot/snapshotter.h"

#include "base/clock.h"

#include <utility>

namespace hp {

Snapshotter::Snapshotter(const std::vector<WholeParam>& params, ParamStore* store, Transport* transport,
                         Options options)
    : on_room_(std::move(options.on_room)),
      on_written_(std::move(options.on_written)),
      gathers_pulls_(options.rank == 0) {
  const bool writes = std::erase(options.writers, options.rank) > 0;
  if (!options.writers.empty()) {
    sender_ = std::make_unique<SliceSender>(options.rank, options.writers, params, store, transport);
  }
  if (!writes) return;
  options.files.on_written = [this] { OnWritten(); };
  writer_ = std::make_unique<SnapshotWriter>(std::move(options.files));
  gatherer_ = std::make_unique<SliceGatherer>(options.rank, params, store, transport, writer_.get(),
                                              SliceGatherer::Options{std::move(options.on_pulled), on_room_});
}

Snapshotter::~Snapshotter() {
  if (writer_) writer_->Stop();  // its thread calls the gatherer
}

bool Snapshotter::HasRoom(bool files) const {
  const bool gathers = gatherer_ && (files || gathers_pulls_);
  return (!sender_ || sender_->HasRoom()) && (!gathers || gatherer_->HasRoom(files));
}

Status Snapshotter::Begin(int64_t clock, int64_t version, bool files, bool pull,
                          const std::optional<LossScalingState>& loss_scaling) {
  if (sender_) HP_RETURN_IF_ERROR(sender_->Copy(clock, version, files));
  pull &= gathers_pulls_;
  if (!gatherer_ || (!files && !pull)) return OkStatus();
  if (files) {
    MutexLock lock(&mutex_);
    begun_ns_.push_back(Clock::Real()->NowNs());
  }
  return gatherer_->Begin(clock, version, files, pull, loss_scaling);
}

// Snapshots are written in the order in which they begin.
void Snapshotter::OnWritten() {
  int64_t begun_ns = 0;
  {
    MutexLock lock(&mutex_);
    begun_ns = begun_ns_.front();
    begun_ns_.pop_front();
  }
  if (on_written_) on_written_(Clock::Real()->NowNs() - begun_ns);
  gatherer_->OnWritten();
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
}

void Snapshotter::OnCopied(int64_t iteration, const Status& status) {
  if (writer_) writer_->OnCopied(iteration, status);
}

Status Snapshotter::Finish() {
  if (sender_) sender_->WaitUntilSent();
  if (!writer_) return OkStatus();
  writer_->SetLastAttempt();
  HP_RETURN_IF_ERROR(gatherer_->WaitUntilDone());
  return writer_->last();
}

}  // namespace hp

// The taker leads: it has one place and grants it again when what arrived is in its store. The giver's main thread,
// which has nothing else to do before training, does all cutting, so that the progress thread stays free for
// heartbeats. A taker may ask for the next piece before the giver hears that the last one was sent; it waits until
// then, because the room is in use.
#include "snapshot/snapshot_transfer.h"

#include "scheduler/control/resume_rules.h"
#include "scheduler/control/slice_tag.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

int64_t LargestOf(const std::vector<ResumePiece>& pieces) {
  int64_t largest = 0;
  for (const ResumePiece& piece : pieces) largest = std::max(largest, piece.count);
  return largest;
}

}  // namespace

Status SnapshotTransfer::Take(const JobPlan& job, Rank giver, ParamStore* store) {
  const std::vector<ResumePiece> pieces = ResumePiecesOf(job, self_);
  HP_ASSIGN_OR_RETURN(place_, Buffer::Allocate(static_cast<size_t>(LargestOf(pieces)) * sizeof(float)));
  for (const ResumePiece& piece : pieces) {
    const std::span<float> place{place_.floats(), static_cast<size_t>(piece.count)};
    HP_RETURN_IF_ERROR(TakePiece(giver, piece.tag, place));
    if (piece.array == 0) {
      HP_RETURN_IF_ERROR(store->WriteValues(piece.param, place));
    } else if (!store->history(piece.param, piece.array).empty()) {  // parameter servers keep those of what they update
      HP_RETURN_IF_ERROR(store->WriteHistory(piece.param, piece.array, place));
    }
  }
  place_ = Buffer();
  return OkStatus();
}

Status SnapshotTransfer::TakePiece(Rank giver, const PlaceTag& tag, std::span<float> place) {
  const Status granted = transport_->Grant(giver, tag, std::as_writable_bytes(place));
  if (!granted.ok()) LOG(WARNING) << "a piece of the snapshot: " << granted;  // the failure detector ends the wait
  MutexLock lock(&mutex_);
  while (!arrived_ && aborted_.ok()) changed_.Wait(&mutex_);
  arrived_ = false;
  return aborted_;
}

Status SnapshotTransfer::Give(const JobPlan& job, const std::set<Rank>& takers, const LoadedSnapshot& snapshot) {
  size_t unsent = 0;
  for (const Rank taker : takers) {
    const std::vector<ResumePiece> pieces = ResumePiecesOf(job, taker);
    unsent += pieces.size();
    HP_ASSIGN_OR_RETURN(rooms_[taker], Buffer::Allocate(static_cast<size_t>(LargestOf(pieces)) * sizeof(float)));
  }
  while (unsent > 0) {
    Asked asked;
    HP_ASSIGN_OR_RETURN(const bool asks, WaitForTaker(&asked, &unsent));
    if (asks) HP_RETURN_IF_ERROR(GivePiece(job, asked, snapshot));
  }
  rooms_.clear();
  return OkStatus();
}

StatusOr<bool> SnapshotTransfer::WaitForTaker(Asked* asked, size_t* unsent) {
  MutexLock lock(&mutex_);
  for (;;) {
    if (!aborted_.ok()) return aborted_;
    *unsent -= sent_;
    const bool news = sent_ > 0;
    sent_ = 0;
    for (auto next = asked_.begin(); next != asked_.end(); ++next) {
      if (!sending_.insert(next->taker).second) continue;
      *asked = *next;
      asked_.erase(next);
      return true;
    }
    if (news) return false;
    changed_.Wait(&mutex_);
  }
}

Status SnapshotTransfer::GivePiece(const JobPlan& job, const Asked& asked, const LoadedSnapshot& snapshot) {
  const ParamPlan& param = job.node(asked.taker, caffe::TRAIN).params().at(SliceParam(asked.tag));
  const std::span<float> piece{rooms_.at(asked.taker).floats(), static_cast<size_t>(param.block.count())};
  HP_RETURN_IF_ERROR(
      snapshot.CopyArray(param.layer, param.blob, SliceArray(asked.tag), param.spec.shape, param.block, piece));
  const Status status = transport_->Write(asked.taker, asked.tag, asked.grant, std::as_bytes(piece));
  if (!status.ok()) LOG(WARNING) << "a piece of the snapshot: " << status;  // the failure detector ends the wait
  return OkStatus();
}

void SnapshotTransfer::Abort(const Status& cause) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = cause;
  changed_.SignalAll();
}

void SnapshotTransfer::OnGranted(Rank taker, const PlaceTag& tag, RemoteGrant grant) {
  MutexLock lock(&mutex_);
  asked_.push_back({taker, tag, grant});
  changed_.SignalAll();
}

void SnapshotTransfer::OnGrantEnded(const Status& status) {
  if (!status.ok()) return;
  MutexLock lock(&mutex_);
  arrived_ = true;
  changed_.SignalAll();
}

void SnapshotTransfer::OnWriteEnded(Rank taker, const Status& status) {
  if (!status.ok()) return;
  MutexLock lock(&mutex_);
  sending_.erase(taker);
  ++sent_;
  changed_.SignalAll();
}

}  // namespace hp

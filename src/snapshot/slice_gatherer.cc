// A version goes: waiting_ -> gathering_ -> complete -> writer, pulls. Only one is gathered at a time, so that an open
// grant is known to be of it and missing_ counts down to its end; Advance moves versions on after each event, and
// hands them out without the lock. A snapshot stays in waiting_ while the writer is busy, so that at most one model
// waits for the disk; a pull overtakes it there. snapshotter.cc says why versions in waiting_ cannot deadlock.
#include "snapshot/slice_gatherer.h"

#include "scheduler/control/slice_tag.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {
SliceGatherer::SliceGatherer(Rank self, const std::vector<WholeParam>& params, ParamStore* store, Transport* transport,
                             SnapshotWriter* writer, Options options)
    : self_(self),
      params_(params),
      store_(store),
      transport_(transport),
      writer_(writer),
      options_(std::move(options)) {}

// A version may begin while nothing waits; one for a pull also while those that wait do so for the disk alone.
bool SliceGatherer::HasRoom(bool files) const {
  MutexLock lock(&mutex_);
  return waiting_.size() < kMaxWaiting || (!files && !gathering_);
}

Status SliceGatherer::Begin(int64_t clock, int64_t version, bool files, bool pull,
                            const std::optional<LossScalingState>& loss_scaling) {
  CHECK(HasRoom(files)) << "no room to gather iteration " << clock << ": others are still waiting";
  HP_ASSIGN_OR_RETURN(const std::shared_ptr<GatheredModel> model, GatheredModel::Create(params_, clock, files));
  model->loss_scaling = loss_scaling;
  for (size_t p = 0; p < params_.size(); ++p) {
    for (size_t s = 0; s < params_[p].slices.size(); ++s) {
      const WholeParam::Slice& slice = params_[p].slices[s];
      if (slice.owner != self_ || slice.block.empty()) continue;
      const int i = store_->Find(params_[p].whole.layer, params_[p].whole.blob);
      for (int array = 0; array < model->arrays(p); ++array) {
        HP_RETURN_IF_ERROR(store_->ReadArray(i, version, array, model->Place(p, s, array)));
      }
    }
  }
  {
    MutexLock lock(&mutex_);
    waiting_.push_back({model, files, pull});
    if (files) writer_->SetNewerWaits(true);
  }
  Advance();
  return OkStatus();
}

void SliceGatherer::OnGrantEnded(const Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!status.ok()) {
      if (lost_.ok()) lost_ = status;
      changed_.SignalAll();
      return;
    }
    CHECK_GT(missing_, 0u);
    if (--missing_ > 0) return;
  }
  Advance();
}

void SliceGatherer::OnWritten() {
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    changed_.SignalAll();
  }
  Advance();
}

void SliceGatherer::Advance() {
  for (;;) {
    std::optional<Version> complete;
    {
      MutexLock lock(&mutex_);
      complete = TakeComplete();
      if (!complete && !StartNext()) break;
    }
    if (!complete) continue;
    if (complete->files) writer_->Write(complete->model);
    if (complete->pull) options_.on_pulled(complete->model);
  }
  options_.on_room();
}

std::optional<SliceGatherer::Version> SliceGatherer::TakeComplete() {
  if (!gathering_ || missing_ > 0) return std::nullopt;
  writing_ |= gathering_->files;
  changed_.SignalAll();
  return std::exchange(gathering_, std::nullopt);
}

bool SliceGatherer::StartNext() {
  if (gathering_) return false;
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), [disk_is_free = !writing_](const Version& version) {
    return !version.files || disk_is_free;
  });
  if (next == waiting_.end()) return false;
  gathering_ = std::move(*next);
  waiting_.erase(next);
  const auto files = [](const Version& version) { return version.files; };
  writer_->SetNewerWaits(std::any_of(waiting_.begin(), waiting_.end(), files));
  GrantPlaces();
  return true;
}

void SliceGatherer::GrantPlaces() {
  const GatheredModel& model = *gathering_->model;
  for (size_t p = 0; p < params_.size(); ++p) {
    for (size_t s = 0; s < params_[p].slices.size(); ++s) {
      const Rank owner = params_[p].slices[s].owner;
      if (owner == self_) continue;
      for (int array = 0; array < model.arrays(p); ++array) {
        const std::span<float> place = model.Place(p, s, array);
        if (place.empty()) continue;
        ++missing_;
        const Status status =
            transport_->Grant(owner, SliceTag(model.iteration(), p, array), std::as_writable_bytes(place));
        if (!status.ok()) LOG(WARNING) << "snapshot of iteration " << model.iteration() << ": " << status;
      }
    }
  }
}

Status SliceGatherer::WaitUntilDone() {
  MutexLock lock(&mutex_);
  while ((gathering_ || !waiting_.empty() || writing_) && lost_.ok()) changed_.Wait(&mutex_);
  return lost_;
}

}  // namespace hp

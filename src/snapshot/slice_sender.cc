// A slice is written when both its copy and its grant are there. Grants may come first, when a gatherer reaches
// the boundary earlier than this one: they wait in grants_. Copies that are made faster than gatherers grant
// wait in copies_, and HasRoom bounds them.
#include "snapshot/slice_sender.h"

#include "scheduler/control/slice_tag.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

bool SliceSender::HasRoom() const {
  MutexLock lock(&mutex_);
  return copies_.size() < kMaxCopies;
}

Status SliceSender::Copy(int64_t clock, int64_t version, bool histories) {
  CHECK(HasRoom()) << "no room for a copy of iteration " << clock << ": the last " << kMaxCopies
                   << " have not been sent";
  const auto gathers = [histories](Rank writer) { return histories || writer == 0; };
  const auto gatherers = static_cast<size_t>(std::count_if(writers_.begin(), writers_.end(), gathers));
  if (gatherers == 0) return OkStatus();
  struct Piece {
    PlaceTag tag;
    int param = 0;  // of the store
    int array = 0;
    size_t count = 0;
  };
  std::vector<Piece> pieces;
  size_t floats = 0;
  for (size_t p = 0; p < params_.size(); ++p) {
    const WholeParam& param = params_[p];
    for (const WholeParam::Slice& slice : param.slices) {
      if (slice.owner != rank_ || slice.block.empty()) continue;
      const int i = store_->Find(param.whole.layer, param.whole.blob);
      for (int array = 0; array <= (histories ? param.whole.histories() : 0); ++array) {
        const size_t count = store_->array(i, version, array).size();
        if (count > 0) pieces.push_back({SliceTag(clock, p, array), i, array, count});
        floats += count;
      }
    }
  }
  ModelCopy copy;
  HP_ASSIGN_OR_RETURN(copy.memory, Buffer::Allocate(floats * sizeof(float)));
  copy.unsent = pieces.size() * gatherers;
  size_t offset = 0;
  for (const Piece& piece : pieces) {
    const std::span<float> to{copy.memory.floats() + offset, piece.count};
    HP_RETURN_IF_ERROR(store_->ReadArray(piece.param, version, piece.array, to));
    copy.slices[piece.tag] = std::as_writable_bytes(to);
    offset += piece.count;
  }
  if (pieces.empty()) return OkStatus();
  MutexLock lock(&mutex_);
  copies_[clock] = std::move(copy);
  SendGranted();
  return OkStatus();
}

void SliceSender::SendGranted() {
  for (auto grant = grants_.begin(); grant != grants_.end();) {
    const auto [gatherer, tag] = grant->first;
    const auto copy = copies_.find(static_cast<int64_t>(tag.msg_id));
    if (copy == copies_.end() || !copy->second.slices.contains(tag)) {
      ++grant;
      continue;
    }
    const Status status = transport_->Write(gatherer, tag, grant->second, copy->second.slices.at(tag));
    if (!status.ok()) LOG(WARNING) << "snapshot of iteration " << tag.msg_id << ": " << status;
    grant = grants_.erase(grant);
  }
}

void SliceSender::OnGranted(Rank gatherer, const PlaceTag& tag, RemoteGrant grant) {
  MutexLock lock(&mutex_);
  grants_[{gatherer, tag}] = grant;
  SendGranted();
}

bool SliceSender::OnWriteEnded(const PlaceTag& tag) {
  MutexLock lock(&mutex_);
  const auto copy = copies_.find(static_cast<int64_t>(tag.msg_id));
  if (copy == copies_.end() || --copy->second.unsent > 0) return false;
  copies_.erase(copy);
  changed_.SignalAll();
  return true;
}

void SliceSender::WaitUntilSent() {
  MutexLock lock(&mutex_);
  while (!copies_.empty()) changed_.Wait(&mutex_);
}

}  // namespace hp

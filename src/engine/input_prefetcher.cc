// One buffer, whose state is (next_, copied_). Take of a training id moves next_ to the id after it and frees the
// buffer; Advance, after each task, fills it as soon as the host has the images. Both put their copies into kCopyIn,
// which keeps their order: the buffer is overwritten only after the copy out of it. At the begin of a job nothing is
// copied ahead, and micro-batches of tests go by without touching it.
#include "engine/input_prefetcher.h"

#include "glog/logging.h"

#include <algorithm>
#include <vector>

namespace hp {
namespace {

/// Of the largest micro-batch; 0: the node reads none.
size_t ImagesBytes(const NodeModel& model) {
  size_t bytes = 0;
  for (const NodeNet* net : model.AllNets(caffe::TRAIN)) bytes = std::max(bytes, net->images_bytes());
  return bytes;
}

/// The replica's training micro-batch after `id`; 0 after the last one of all.
MsgId NextOf(const Schedule& schedule, MsgId id) {
  const std::vector<MsgId> ids = schedule.TrainIds(id.clock(), schedule.ReadBy(id.replica()));
  const auto next = std::upper_bound(ids.begin(), ids.end(), id);
  if (next != ids.end()) return *next;
  const std::vector<MsgId> later = schedule.TrainIds(id.clock() + 1, schedule.ReadBy(id.replica()));
  return later.empty() ? MsgId() : later.front();
}

}  // namespace

size_t InputPrefetcher::DeviceBytes(const NodeModel& model) { return ImagesBytes(model); }

StatusOr<std::unique_ptr<InputPrefetcher>> InputPrefetcher::Create(const NodeModel& model, Device* device,
                                                                   const Input* input) {
  const size_t bytes = ImagesBytes(model);
  if (bytes == 0) return std::unique_ptr<InputPrefetcher>();
  std::unique_ptr<InputPrefetcher> made(new InputPrefetcher(model, device, input));
  HP_ASSIGN_OR_RETURN(made->place_, device->Allocate(bytes));
  return made;
}

InputPrefetcher::~InputPrefetcher() {
  if (!copied_) return;
  const Status status = device_->Synchronize();
  if (!status.ok()) LOG(WARNING) << "prefetch of images: " << status;
}

bool InputPrefetcher::Take(MsgId id, void* to) {
  if (!id.train()) return false;
  const bool here = copied_ && id == next_;
  if (here) device_->Copy(Device::kCopyIn, to, place_.data(), bytes_);
  // Tasks that read images begin in the order of their ids, so nobody wants what is left behind here.
  next_ = NextOf(model_.schedule(), id);
  copied_ = false;
  return here;
}

void InputPrefetcher::Advance() {
  if (copied_ || next_ == MsgId() || !input_->Ready(next_)) return;
  const NodeNet& net = model_.NetOf(next_);
  bytes_ = input_->raw(next_) ? net.raw_images_bytes() : net.images_bytes();
  device_->Upload(Device::kCopyIn, place_.data(), input_->images(next_), bytes_);
  copied_ = true;
}

}  // namespace hp
